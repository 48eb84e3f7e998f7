// BullMQ (Node) with the same command line and run log as peerlib.py.
import { createRequire } from "node:module";
import fs from "node:fs";

const require = createRequire(process.env.BENCH_NODE_ROOT + "/");
const { Queue, Worker } = require("bullmq");

const url = new URL(process.env.BENCH_REDIS_URL);
const connection = { host: url.hostname, port: Number(url.port), maxRetriesPerRequest: null };
const record = process.env.BENCH_RECORD ?? "/dev/null";
const profile = process.env.BENCH_PROFILE ?? "throughput";
const ENTRY = 16, START = 0, DONE = 1, WARMUP = 5;
const now = () => Number(process.hrtime.bigint()) / 1e9; // CLOCK_MONOTONIC
const sleep = (ms) => new Promise((done) => setTimeout(done, ms));

let fd = -1;
function logEvent(index, event = DONE) {
  if (fd < 0) fd = fs.openSync(record, "a");
  const entry = Buffer.alloc(ENTRY);
  entry.writeUInt32LE(index, 0);
  entry.writeUInt32LE(event, 4);
  entry.writeDoubleLE(now(), 8);
  fs.writeSync(fd, entry);
}
const entries = () => (fs.existsSync(record) ? Math.floor(fs.statSync(record).size / ENTRY) : 0);

const jobs = {
  noop: async ({ order_id }) => logEvent(order_id),
  io10: async ({ order_id }) => { await sleep(10); logEvent(order_id); },
  slow50: async ({ order_id }) => { logEvent(order_id, START); await sleep(50); logEvent(order_id); },
};
const options = { removeOnComplete: true };
const queue = () => new Queue("bench", { connection });
const answer = (value) => console.log("RESULT " + JSON.stringify(value));

const commands = {
  async produce(count, kind, first) {
    const q = queue(); count = Number(count); first = Number(first);
    await q.add(kind, { order_id: first }, options);
    const began = now();
    for (let i = first + 1; i < first + count; i++) await q.add(kind, { order_id: i }, options);
    answer({ n: count, seconds: (now() - began) * count / Math.max(1, count - 1) });
    await q.close();
  },
  async bulk(count, kind, first) {
    const q = queue(); count = Number(count); first = Number(first);
    await q.waitUntilReady();
    const began = now();
    for (let low = first; low < first + count; low += 1000) {
      const batch = [];
      for (let i = low; i < Math.min(low + 1000, first + count); i++) batch.push({ name: kind, data: { order_id: i }, opts: options });
      await q.addBulk(batch);
    }
    answer({ n: count, seconds: now() - began });
    await q.close();
  },
  async latency(count, gap) {
    const q = queue(), samples = [];
    await q.waitUntilReady();
    for (let i = 0; i < Number(count) + WARMUP; i++) {
      await sleep(5 + Math.random() * Math.max(0.02, Number(gap)) * 1000);
      const before = entries(), sent = now();
      await q.add("noop", { order_id: i }, options);
      while (entries() <= before) {
        if (now() > sent + 30) throw new Error("timeout");
        await sleep(1);
      }
      const entry = Buffer.alloc(ENTRY), log = fs.openSync(record, "r");
      fs.readSync(log, entry, 0, ENTRY, before * ENTRY);
      fs.closeSync(log);
      if (i >= WARMUP) samples.push(entry.readDoubleLE(8) - sent);
    }
    answer({ samples });
    await q.close();
  },
  async work() {
    const tuned = profile === "reliable" ? { stalledInterval: 5000, lockDuration: 5000 } : {};
    const concurrency = profile === "throughput" || profile === "io" ? 100 : 10;
    new Worker("bench", async (job) => jobs[job.name](job.data), { connection, concurrency, ...tuned });
  },
};
const [command, ...args] = process.argv.slice(2);
await commands[command](...args);
