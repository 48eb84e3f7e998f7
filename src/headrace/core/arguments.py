"""A task's arguments: bound to names, checked against the function's annotations, and back again.

Encoding checks by decoding: whatever passes at enqueue is what the worker will decode. The checks that a typed
decoder cannot make (NaN, numbers beyond 64 bits, depth, values that would change their type) are triggered
by looking at the encoded bytes, so that ordinary arguments do not pay for them.
"""

from __future__ import annotations

import inspect
import re
import typing
from collections.abc import Callable, Mapping
from typing import Any, NoReturn

import msgspec

from headrace.core import loose, misfit, values
from headrace.core.codec import MAX_BODY, MAX_DEPTH
from headrace.errors import InvalidArguments, PayloadTooLarge, TaskError

_encoder = msgspec.json.Encoder(enc_hook=values.enc_hook)
_SUSPICIOUS = re.compile(rb"null|\d{19}")  # what NaN and Infinity become, and what a number beyond 64 bits needs

Raw = bytes | bytearray | memoryview | msgspec.Raw


class Arguments:
    """How one function is called. Made by `of`; safe to share between threads."""

    __slots__ = (
        "_decoder",
        "_extra",
        "_loose",
        "_loose_extra",
        "_optional",
        "defaults",
        "function_name",
        "names",
        "takes_more",
        "types",
    )

    def __init__(self, function_name: str, types: dict[str, Any], defaults: dict[str, Any], extra: Any) -> None:
        self.function_name = function_name
        self.names = tuple(types)
        self.types = types
        self.defaults = defaults
        self.takes_more = extra is not inspect.Parameter.empty
        self._optional = bool(defaults)
        self._extra = values.decoder(extra) if self.takes_more else None
        self._loose_extra = extra if self.takes_more and loose.is_loose(extra) else None
        # A missing optional argument stays missing: its default is applied by the function, in the worker's
        # version of the code, and is not frozen at enqueue.
        fields = [(name, type_, msgspec.UNSET) if name in defaults else (name, type_) for name, type_ in types.items()]
        struct = msgspec.defstruct(
            "Arguments", fields, kw_only=True, forbid_unknown_fields=not self.takes_more, gc=False
        )
        self._decoder = values.decoder(struct)
        self._loose = any(loose.is_loose(type_) for type_ in types.values())

    @classmethod
    def of(cls, function: Callable[..., Any]) -> Arguments:
        """The arguments of `function`, from its signature and annotations.

        Raises:
            TaskError: it takes `self`, `*args` or positional-only parameters, or an annotation that no JSON value can
                be checked against, or a default does not fit its annotation. The message names the parameter.
        """
        name = getattr(function, "__qualname__", repr(function))
        hints = _hints(function, name)
        types: dict[str, Any] = {}
        defaults: dict[str, Any] = {}
        extra: Any = inspect.Parameter.empty
        for place, parameter in enumerate(inspect.signature(function).parameters.values()):
            type_ = hints.get(parameter.name, Any)
            if place == 0:
                _refuse_method(name, parameter)
            _refuse_unfit(name, parameter, type_)
            if parameter.kind is parameter.VAR_KEYWORD:
                extra = type_
                continue
            types[parameter.name] = type_
            if parameter.default is not parameter.empty:
                _refuse_default(name, parameter, type_)
                defaults[parameter.name] = parameter.default
        return cls(name, types, defaults, extra)

    def encode(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> bytes:
        """The call as a JSON object, checked.

        Raises:
            InvalidArguments: an argument is missing, unknown, of a wrong type, or would change on its way.
            PayloadTooLarge: more than 1 MB, or nested deeper than 64 levels.
        """
        named = self.bind(args, kwargs) if args else kwargs
        try:
            raw = _encoder.encode(named)
        except (TypeError, ValueError, RecursionError, OverflowError) as error:
            self._refuse_encoding(named, error)
        return self._checked(raw, named)

    def amend(self, given: Mapping[str, msgspec.Raw], changes: Mapping[str, Any]) -> bytes:
        """The call `given` with `changes`, checked in the same way. What is not changed stays as it is written.

        A change may be a value, or JSON that is taken as it is written.

        Raises:
            InvalidArguments, PayloadTooLarge: as `encode`; also where what is not changed does not fit.
        """
        try:
            raw = _encoder.encode({**given, **changes})
        except (TypeError, ValueError, RecursionError, OverflowError) as error:
            self._refuse_encoding(changes, error)
        plain = {
            name: msgspec.json.decode(value) if type(value) is msgspec.Raw else value for name, value in changes.items()
        }
        return self._checked(raw, plain)

    def _checked(self, raw: bytes, named: Mapping[str, Any]) -> bytes:
        """`raw`, unless it does not fit; `named` are the values that were encoded just now."""
        if raw.count(b"[") + raw.count(b"{") > MAX_DEPTH:
            self._check_depth(raw)
        if _SUSPICIOUS.search(raw):
            self._check(named, values.find_lossy_number)
        try:
            self._decoder.decode(raw) if self._extra is None else self._decode(raw)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise self._problem(error, named) from None
        if self._loose or self._loose_extra is not None:
            self._check_loose(named)
        if len(raw) > MAX_BODY:
            raise PayloadTooLarge(
                f"the arguments of {self.function_name}() have {len(raw):,} bytes, {MAX_BODY:,} are allowed: "
                f"the largest is {self._largest(named)!r}; store it elsewhere and pass its id"
            )
        return raw

    def decode(self, raw: Raw) -> dict[str, Any]:
        """The arguments by name, typed. Those that were not given are missing.

        Raises:
            InvalidArguments: they do not fit the signature.
        """
        try:
            return self._decode(raw)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise self._problem(error, None) from None

    def _decode(self, raw: Raw) -> dict[str, Any]:
        named = msgspec.structs.asdict(self._decoder.decode(raw))
        if self._optional:
            named = {name: value for name, value in named.items() if value is not msgspec.UNSET}
        if self._extra is not None:
            for name, value in values.decode_raw_object(raw).items():
                if name not in self.types:
                    try:
                        named[name] = self._extra.decode(value)
                    except msgspec.ValidationError as error:
                        raise misfit.at(error, name) from error.__cause__
        return named

    def bind(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> dict[str, Any]:
        """The call by argument names.

        Raises:
            InvalidArguments: too many positional arguments, or one that is also given by name.
        """
        if len(args) > len(self.names):
            raise InvalidArguments(
                f"{self.function_name}() got {len(args)} arguments by position; {misfit.takes(self.types)}"
            )
        named = dict(zip(self.names, args, strict=False))
        for name in kwargs:
            if name in named:
                raise InvalidArguments(
                    f"{self.function_name}() got the argument {name!r} twice: by position and by name"
                )
        named.update(kwargs)
        return named

    # -- saying what is wrong

    def _check(self, named: Mapping[str, Any], find: Callable[[Any, str], values.Trouble | None]) -> None:
        for name, value in named.items():
            trouble = find(value, name)
            if trouble is not None:
                raise InvalidArguments(f"{self.function_name}(): {trouble.path} is {trouble.what}: {trouble.fix}")

    def _check_loose(self, named: Mapping[str, Any]) -> None:
        for name, value in named.items():
            if value.__class__ in values.PLAIN_SCALARS:
                continue
            type_ = self.types.get(name, self._loose_extra)
            trouble = loose.find_lost(value, type_, name) if type_ is not None else None
            if trouble is not None:
                raise InvalidArguments(f"{self.function_name}(): {trouble.path} is {trouble.what}: {trouble.fix}")

    def _check_depth(self, raw: bytes) -> None:
        depth = values.depth(raw)
        if depth > MAX_DEPTH:
            raise PayloadTooLarge(
                f"the arguments of {self.function_name}() are nested {depth} levels deep, {MAX_DEPTH} are allowed: "
                "store the data elsewhere and pass its id"
            )

    def _refuse_encoding(self, named: Mapping[str, Any], error: Exception) -> NoReturn:
        if isinstance(error, RecursionError):
            raise PayloadTooLarge(
                f"the arguments of {self.function_name}() are nested too deep or contain themselves, "
                f"{MAX_DEPTH} levels are allowed"
            ) from None
        for name, value in named.items():
            trouble = values.find_unencodable(value, str(name))
            if trouble is not None:
                raise InvalidArguments(
                    f"{self.function_name}(): {trouble.path} is {trouble.what}: {trouble.fix}"
                ) from None
        raise InvalidArguments(f"{self.function_name}(): the arguments cannot be encoded as JSON: {error}") from error

    def _problem(self, error: Exception, named: Mapping[str, Any] | None) -> InvalidArguments:
        if isinstance(error, RecursionError):
            return InvalidArguments(f"{self.function_name}(): the arguments are nested too deep to be read")
        required = [name for name in self.names if name not in self.defaults]
        return InvalidArguments(f"{self.function_name}(){misfit.describe(error, self.types, required, named)}")

    def _largest(self, named: Mapping[str, Any]) -> str:
        return max(named, key=lambda name: len(_encoder.encode(named[name])), default="")


def _hints(function: Callable[..., Any], name: str) -> dict[str, Any]:
    try:
        return typing.get_type_hints(function, include_extras=True)
    except Exception as error:
        raise TaskError(
            f"the annotations of {name}() cannot be evaluated ({error}): they are needed at run time, so import "
            "what they name at module level, outside of `if TYPE_CHECKING`"
        ) from error


def _refuse_method(name: str, first: inspect.Parameter) -> None:
    if first.name in ("self", "cls"):
        raise TaskError(
            f"{name}() takes {first.name!r}, so it is a method, and a worker has no object to call it on: make it a "
            "function and pass an id of what it works on"
        )


def _refuse_default(name: str, parameter: inspect.Parameter, type_: Any) -> None:
    """A default never travels, but one that does not fit is a mistake, most likely in the annotation."""
    trouble = values.find_misfit(parameter.default, type_)
    if trouble:
        raise TaskError(
            f"{name}(): the default of {parameter.name!r} does not fit its annotation ({trouble}): change one of them"
            + (", such as to `... | None`" if parameter.default is None else "")
        )


def _refuse_unfit(name: str, parameter: inspect.Parameter, type_: Any) -> None:
    if parameter.kind is parameter.VAR_POSITIONAL:
        raise TaskError(
            f"{name}() takes *{parameter.name}: a job's arguments have names, so give each a parameter, or pass a list"
        )
    if parameter.kind is parameter.POSITIONAL_ONLY:
        raise TaskError(
            f"{name}() has the positional-only parameter {parameter.name!r}: a job's arguments have "
            "names, so remove the '/'"
        )
    problem = values.unsupported(type_)
    if problem:
        raise TaskError(f"{name}(): the parameter {parameter.name!r} is annotated with {problem}")
