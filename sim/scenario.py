"""The scenario: one schema for the command, the library and the files that runs leave behind.

A scenario says what is asked (`load`), of what (`model`, `gpu`, `parallel`, `kv`), under which
rules (`policy`) and how step times are predicted (`step_time`). Keys are those of the YAML file;
an unknown key, or a value that a key does not take, is refused by name.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

import yaml
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError

from pagecast.engine.core.errors import UserError
from pagecast.engine.specs.kv_format import KvFormat

WeightDtype = Literal["bf16", "fp16", "fp32", "fp8", "int8", "int4"]
KvDtype = Annotated[str, AfterValidator(lambda text: str(KvFormat.parse(text)))]
"""A `KvFormat` as text, such as `int8` or `int8:layers=2,tokens=64`, in its one spelling."""

TRACE_MISSING = "; accepted: --trace with a file, or a sample such as azure_conv_like"
MISSING = {"load": TRACE_MISSING, "load.trace": TRACE_MISSING}
"""What to say when a key is missing that has no default."""


class ScenarioError(UserError):
    """A scenario that means nothing, with the key, its value and what would be accepted."""


class Section(BaseModel):
    """A part of a scenario: immutable, and closed to keys it does not know."""

    model_config = ConfigDict(extra="forbid", frozen=True, protected_namespaces=())


class Load(Section):
    """What is asked: a trace, as it is or limited and sped up."""

    trace: str
    limit: int | None = Field(None, ge=1)
    rate_scale: float = Field(1.0, gt=0, allow_inf_nan=False)
    max_tokens_default: int | None = Field(None, ge=1)


class Model(Section):
    """The model served; `max_len` is the longest context, by default the model's own."""

    name: str
    weight_dtype: WeightDtype = "bf16"
    max_len: int | None = Field(None, ge=2)


class Gpu(Section):
    """The GPU, with what is known better than by datasheet and estimate, per rank in GiB."""

    name: str
    memory_gib: float | None = Field(None, gt=0)
    utilization: float = Field(0.9, gt=0, le=1)
    weights_gib: float | None = Field(None, gt=0)
    activation_gib: float | None = Field(None, ge=0)
    non_torch_gib: float | None = Field(None, ge=0)
    price_per_hour: float | None = Field(None, ge=0)


class Parallel(Section):
    """How many GPUs share one copy of the model."""

    tp: int = Field(1, ge=1)


class PolicyChoice(BaseModel):
    """A preset, and axes that depart from it; `auto` limits are the engine's own defaults."""

    model_config = ConfigDict(extra="allow", frozen=True)

    preset: str = "pagecast"

    def axes(self) -> dict[str, Any]:
        """The axes that depart from the preset."""
        return dict(self.model_extra or {})


class Kv(Section):
    """The KV cache; `blocks` counts all of them, by default as many as memory holds.

    `swap_gib` is host memory per GPU for requests that are swapped out, used by policies that swap
    (vLLM V0 had 4). `swap_copies` says how blocks are copied, `swap_overlap` which share of a swap
    can hide behind the rest of its step.
    """

    blocks: int | None = Field(None, ge=2, le=1 << 24)
    block_size: int = Field(16, ge=1)
    dtype: KvDtype = "bf16"
    swap_gib: float = Field(4.0, ge=0, le=1 << 20)
    swap_copies: Literal["batched", "per_block"] = "batched"
    swap_overlap: float = Field(0.0, ge=0, le=1)


class StepTime(Section):
    """Where step times come from."""

    profile: Literal["analytic"] = "analytic"


class Scenario(Section):
    """Everything that decides a run."""

    load: Load
    model: Model
    gpu: Gpu
    parallel: Parallel = Parallel()
    policy: PolicyChoice = PolicyChoice()
    kv: Kv = Kv()
    step_time: StepTime = StepTime()
    slo: dict[str, float | str] = {}
    seed: int = 0


def parse(document: Mapping[str, Any], where: str = "scenario") -> Scenario:
    """A scenario from nested keys.

    Raises:
        ScenarioError: one line for the first key that is unknown, missing or out of range.
    """
    try:
        return Scenario.model_validate(document)
    except ValidationError as error:
        raise ScenarioError(f"{where}: {_explain(error, document)}") from None


def read(path: str | Path) -> dict[str, Any]:
    """The nested keys of a scenario file.

    Raises:
        ScenarioError: if the file is missing or is not a YAML mapping.
    """
    try:
        document = yaml.safe_load(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise ScenarioError(f"{path}: {error.strerror}; accepted: a scenario in YAML") from None
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        line = str(error).replace("\n", " ")
        raise ScenarioError(f"{path}: not YAML: {line}") from None
    if not isinstance(document, dict):
        raise ScenarioError(f"{path}: holds no keys; accepted: a scenario in YAML")
    return document


def assign(document: dict[str, Any], assignment: str) -> None:
    """Set one key in place, as `--set key.path=value` says; the value is read as YAML.

    Raises:
        ScenarioError: if the text is no assignment, or steps into a value that has no keys.
    """
    path, sign, text = assignment.partition("=")
    if not sign or not path.strip():
        raise ScenarioError(f"--set {assignment}: no assignment; accepted: key.path=value")
    try:
        value = yaml.safe_load(text)
    except yaml.YAMLError:
        raise ScenarioError(f"--set {assignment}: the value is not YAML") from None
    put(document, path.strip(), value)


def put(document: dict[str, Any], path: str, value: Any) -> None:
    """Set the key at a dotted path, making the sections on the way.

    Raises:
        ScenarioError: if the path steps into a value that has no keys.
    """
    *parents, key = path.split(".")
    place = document
    for name in parents:
        place = place.setdefault(name, {})
        if not isinstance(place, dict):
            raise ScenarioError(f"{path}: {name} is {place!r} and has no keys below it")
    place[key] = value


def _explain(error: ValidationError, document: Mapping[str, Any]) -> str:
    first = error.errors()[0]
    where = ".".join(str(part) for part in first["loc"])
    if first["type"] == "extra_forbidden":
        names = _keys_beside(first["loc"])
        close = difflib.get_close_matches(str(first["loc"][-1]), names, n=1)
        hint = f"did you mean {close[0]}? " if close else ""
        return f"{where}: unknown key; {hint}accepted: {', '.join(names)}"
    if first["type"] == "missing":
        return f"{where}: missing{MISSING.get(where, '')}"
    if first["type"] == "model_type":
        return f"{where}: {first['input']!r}: accepted: keys {', '.join(_keys_below(where))}"
    text = first["msg"].removeprefix("Value error, ")
    message = text[0].lower() + text[1:]
    return f"{where}: {first['input']!r}: {message.replace('input should be', 'accepted:')}"


def _keys_below(section: str) -> list[str]:
    return _keys_beside((section, ""))


def _keys_beside(location: tuple[int | str, ...]) -> list[str]:
    """The keys that are accepted where an unknown one stood."""
    section: type[BaseModel] = Scenario
    for part in location[:-1]:
        annotation = section.model_fields[str(part)].annotation
        if isinstance(annotation, type) and issubclass(annotation, BaseModel):
            section = annotation
    return list(section.model_fields)
