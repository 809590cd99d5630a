"""Serves the losses of one Python file to curricle, with the arguments FILE and MEMORY.

Requests and replies are lines of JSON on the socket that is standard input; tensors are in the shared memory with
the file descriptor MEMORY, where this text was before. This process ends when curricle closes the socket or ends.
"""

import ast
import contextlib
import faulthandler
import hashlib
import inspect
import json
import math
import mmap
import os
import random
import re
import select
import signal
import socket
import sys
import threading
import time
import traceback
import types
import typing
import warnings

PATH, MEMORY = sys.argv[1], int(sys.argv[2])
FOLDER = os.path.dirname(PATH)
FILE = os.fsencode(os.path.basename(PATH)).decode(errors="replace")
SIZES = {"num_classes": "classes", "embedding_size": "embedding"}
OPTIONAL_INPUTS = ("weights", "ids")
SOON = 0.5e-3  # seconds


# ------------------------------------------------------------------------------------------- errors


class Fault(Exception):
    """A loss that does not do what curricle asks of it; `at` is its class or method, or a file and a line."""

    def __init__(self, at, what):
        super().__init__(what)
        self.at = at if isinstance(at, tuple) else place_of(at)


def place_of(function):
    code = getattr(inspect.unwrap(getattr(function, "__init__", function)), "__code__", None)
    code = getattr(inspect.unwrap(function), "__code__", code)
    return (code.co_filename, code.co_firstlineno) if code else (PATH, None)


def described(error):
    """What went wrong and where, in the user's terms."""
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if not is_internal(frame)]
    what = str(error).strip().split("\n")[0]
    if isinstance(error, Fault):
        return {"at": shown(*error.at), "what": what, "traceback": ""}
    what = f"{type(error).__name__}: {what}" if what else type(error).__name__
    mine = [frame for frame in frames if is_mine(frame.filename)] or frames
    place = (mine[-1].filename, mine[-1].lineno) if mine else (PATH, None)
    if isinstance(error, SyntaxError) and error.filename:
        place, what = (error.filename, error.lineno), f"{type(error).__name__}: {error.msg}"
    if isinstance(error, ImportError) and "relative import" in what:
        what += "; modules beside the file are imported as `import name`"
    if isinstance(error, SystemExit):
        what = f"called `exit({'' if error.code is None else repr(error.code)})`"
    whole = traceback.TracebackException.from_exception(error)
    whole.stack = traceback.StackSummary.from_list(frames)
    return {"at": shown(*place), "what": what, "traceback": "".join(whole.format())}


def is_internal(frame):
    """Whether a call is one of this file's, or one of those that every module has."""
    return frame.filename in ("<string>", ast.__file__) or frame.name in ("_call_impl", "_wrapped_call_impl")


def is_mine(file):
    """Whether a file is the user's: this one or a module beside it."""
    return os.path.dirname(file) == FOLDER


def shown(file, line):
    file = os.path.basename(file) if is_mine(file) else file
    file = os.fsencode(file).decode(errors="replace")
    return file if line is None else f"{file}:{line}"


# ------------------------------------------------------------------------------------ communication


def take_standard_streams():
    """Keeps the socket from the user's code, which sees an empty standard input and prints to standard error."""
    channel = socket.socket(fileno=os.dup(0))
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(2, 1)
    os.set_inheritable(MEMORY, False)
    # curricle handles these signals, which may be sent to all processes of a job, and closes the socket.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    # Shows where the code is when it crashes, and when curricle finds that it hangs.
    faulthandler.enable(all_threads=False)
    faulthandler.register(signal.SIGUSR1, all_threads=False)
    threading.Thread(target=end_with, args=(channel,), daemon=True).start()
    return channel


def end_with(channel):
    """Ends this process as soon as curricle is gone, even if the user's code hangs."""
    poll = select.poll()
    poll.register(channel, 0)
    poll.poll()
    os._exit(0)


CHANNEL = take_standard_streams()


def send(reply):
    CHANNEL.sendall(json.dumps(reply).encode() + b"\n")


def requests():
    """Polls for the next request if the last one came soon: sleeping and waking up takes longer than many losses."""
    lines, poll, soon = CHANNEL.makefile("rb"), select.poll(), False
    poll.register(CHANNEL, select.POLLIN)
    while True:
        start = time.perf_counter()
        while soon and not poll.poll(0) and time.perf_counter() - start < SOON:
            os.sched_yield()
        line = lines.readline()
        if not line:
            return
        soon = time.perf_counter() - start < SOON
        yield json.loads(line)


def end(reply):
    send(reply)
    os._exit(0)


with open(PATH, "rb") as file:
    SOURCE = file.read()
try:
    TREE = ast.parse(SOURCE, PATH)
except BaseException as error:
    end({"error": described(error)})
try:
    import torch
except BaseException as error:
    end({"no_torch": described(error), "python": sys.executable})

KINDS = {
    "Float": torch.float32,
    "Double": torch.float64,
    "Int64": torch.int64,
    "Int": torch.int32,
    "Uint8": torch.uint8,
    "Bool": torch.bool,
}
KIND_NAMES = {kind: name for name, kind in KINDS.items()}
memory = None


class Places:
    """Where the tensors of a request are in shared memory. Steps of the same shapes share one."""

    def __init__(self, places):
        global memory
        if memory is None or len(memory) != places["memory"]:
            memory = mmap.mmap(MEMORY, places["memory"])
        views = lambda slots: {name: view(*slot) for name, slot in slots.items()}
        self.inputs, self.tensors = views(places["inputs"]), views(places["tensors"])
        # The loss, its gradient with respect to the embeddings, and those with respect to tensors.
        self.results, self.gradients = views(places["results"]), views(places["gradients"])


def view(kind, shape, offset):
    """The tensor in shared memory."""
    count = math.prod(shape)
    if count == 0:
        return torch.empty(shape, dtype=KINDS[kind])
    return torch.frombuffer(memory, dtype=KINDS[kind], count=count, offset=offset).view(shape)


# --------------------------------------------------------------------------- the losses of the file

PLAIN = {float: "number", int: "integer", bool: "boolean", str: "string"}
UNIONS = (typing.Union, getattr(types, "UnionType", typing.Union))
NOT_GIVEN = inspect.Parameter.empty


def losses():
    """The classes that the file offers, by name: public modules that it defines or assigns but does not import."""
    lines = {}
    for node in TREE.body:
        if isinstance(node, ast.ClassDef):
            if node.name in lines:
                what = f"defines `{node.name}` a second time, after line {lines[node.name]}; rename one of the classes"
                raise Fault((PATH, node.lineno), what)
            lines[node.name] = node.lineno
    imports = [node for node in ast.walk(TREE) if isinstance(node, (ast.Import, ast.ImportFrom))]
    imported = {alias.asname or alias.name for node in imports for alias in node.names}
    plugin = types.ModuleType("curricle_plugin")
    plugin.__file__ = PATH
    sys.modules[plugin.__name__] = plugin
    exec(compile(TREE, PATH, "exec"), plugin.__dict__)
    names = getattr(plugin, "__all__", None)
    if names is None:
        names = [name for name in vars(plugin) if not name.startswith("_") and name not in imported]
    for name in names:
        if not hasattr(plugin, name):
            raise Fault((PATH, None), f"has `{name}` in `__all__`, but does not define it")
    found = {name: getattr(plugin, name) for name in names}
    found = {name: cls for name, cls in found.items() if inspect.isclass(cls) and issubclass(cls, torch.nn.Module)}
    taken = {name: inputs(cls) for name, cls in found.items()}
    offered = {name: cls for name, cls in found.items() if list(taken[name])[:2] == ["embeddings", "labels"]}
    if not offered:
        others = [f"`{name}.forward` takes `{'`, `'.join(taken[name])}`" for name in found]
        others += [f"`{name}` is only imported" for name in sorted(imported & set(vars(plugin))) if is_loss(plugin, name)]
        rule = "a loss is a public class, derived from `torch.nn.Module`, whose `forward` begins with `embeddings, labels`"
        raise Fault((PATH, None), "; ".join(["has no losses", *others, rule]))
    return offered


def is_loss(plugin, name):
    cls = getattr(plugin, name)
    return inspect.isclass(cls) and issubclass(cls, torch.nn.Module) and "labels" in inputs(cls)


def inputs(cls):
    """The parameters of `forward` after `self`, by name."""
    parameters = list(inspect.signature(cls.forward).parameters.values())[1:]
    return {p.name: p for p in parameters if p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)}


def arguments(cls):
    """The parameters of the constructor, by name, with their annotations resolved where possible."""
    try:
        hints = typing.get_type_hints(cls.__init__)
    except Exception:
        hints = {}
    parameters = inspect.signature(cls).parameters.values()
    named = [p for p in parameters if p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)]
    return {p.name: p.replace(annotation=hints.get(p.name, p.annotation)) for p in named}


def description(name, cls):
    for other, parameter in inputs(cls).items():
        if other not in ("embeddings", "labels", *OPTIONAL_INPUTS) and parameter.default is NOT_GIVEN:
            allowed = "`, `".join(("embeddings", "labels", *OPTIONAL_INPUTS))
            fix = f"it may take `{allowed}` and arguments with defaults"
            raise Fault(cls.forward, f"`{name}.forward` needs `{other}`, which curricle does not have; {fix}")
    properties, required = {}, []
    for key, parameter in arguments(cls).items():
        if key in SIZES:
            continue
        rule, default = rule_of(parameter), parameter.default
        # The default of an annotated argument may be a number that recipes do not have, such as infinity.
        if rule is None or key == "name" or not (rule or is_json(default)):
            if default is NOT_GIVEN:
                what = f"a recipe cannot give argument `{key}` of `{name}`; give it a default"
                raise Fault(cls.__init__, f"{what}, or annotate it with `float`, `int`, `bool`, `str` or a list of them")
            continue
        rule["description"] = documented(cls, key) or f"Argument `{key}` of `{cls.__name__}`."
        if default is NOT_GIVEN:
            required.append(key)
        elif is_json(default):
            rule["default"] = default
        properties[key] = rule
    package = sys.modules.get(cls.__module__.split(".")[0])
    # The first paragraph. Some authors leave no blank line before the arguments.
    summary = re.split(r"\n\n|(?:^|\n)(?=Arg\w*:|Parameters\b|:param )", inspect.cleandoc(cls.__doc__ or ""))[0]
    return {
        "name": name,
        "version": str(getattr(package, "__version__", "")),
        "summary": " ".join(summary.split()) or f"`{name}` in `{FILE}`",
        "schema": {"type": "object", "properties": properties, "required": required, "additionalProperties": False},
        "inputs": [key for key in OPTIONAL_INPUTS if key in inputs(cls)],
    }


def rule_of(parameter):
    """The JSON Schema of a setting; None if a recipe cannot give it."""
    if parameter.annotation is not NOT_GIVEN:
        return rule_of_type(parameter.annotation)
    default = parameter.default
    if default is None or default is NOT_GIVEN:
        return {}
    if isinstance(default, (list, tuple)):
        return {"type": "array"}
    # A whole number as the default of a setting without a type does not mean that others are wrong.
    return {"type": "number" if type(default) is int else PLAIN[type(default)]} if type(default) in PLAIN else None


def rule_of_type(annotation):
    if annotation in PLAIN:
        return {"type": PLAIN[annotation]}
    origin, parts = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is typing.Literal and all(map(is_json, parts)):
        return {"enum": list(parts)}
    if annotation in (list, tuple):
        return {"type": "array"}
    if origin in UNIONS:
        rules = [rule_of_type(part) for part in parts if part is not type(None)]
        return None if None in rules else rules[0] if len(rules) == 1 else {"anyOf": rules}
    if origin is list or (origin is tuple and parts[-1] is Ellipsis):
        items = rule_of_type(parts[0])
        return items and {"type": "array", "items": items}
    if origin is tuple:
        items = [rule_of_type(part) for part in parts]
        return None if None in items else {"type": "array", "items": items, "minItems": len(items), "maxItems": len(items)}
    return None


def is_json(value):
    if isinstance(value, (list, tuple)):
        return all(map(is_json, value))
    if type(value) is float:
        return math.isfinite(value)
    return value is NOT_GIVEN or value is None or type(value) in PLAIN


def documented(cls, key):
    """The description of an argument in a docstring in the style of Google, NumPy or Sphinx."""
    for text in (cls.__doc__, cls.__init__.__doc__):
        lines = inspect.cleandoc(text or "").splitlines()
        for number, line in enumerate(lines):
            match = re.match(rf"(\s*)(?::param )?{re.escape(key)}\b(?: ?\([^)]*\))?( ?):(.*)", line)
            if match:
                indent, numpy_style, first = match.groups()
                found = [] if numpy_style else [first.strip()]
                for more in lines[number + 1 :]:
                    if len(more) - len(more.lstrip()) <= len(indent):
                        break
                    found.append(more.strip())
                return " ".join(found).strip()
    return ""


# ------------------------------------------------------------------------------------------ a loss


def seed_all(seed):
    # Only the CPU's generator: `torch.manual_seed` also records the stack for CUDA, which takes longer than a loss.
    torch.default_generator.manual_seed(seed)
    random.seed(seed)
    if "numpy" in sys.modules:
        sys.modules["numpy"].random.seed(seed % 2**32)


class Loss:
    """A class of the file with settings. Its modules differ in the sizes that its constructor takes."""

    def __init__(self, cls, settings):
        self.cls, self.modules, self.declarations = cls, {}, {}
        self.parameters = arguments(cls)
        self.settings = {key: self.converted(key, value) for key, value in settings.items() if value is not None}
        self.sizes = [key for key in SIZES if key in self.parameters]
        self.positional = [p.name for p in self.parameters.values() if p.kind is p.POSITIONAL_ONLY]
        if not self.sizes:
            self.module({})

    def converted(self, key, value):
        """JSON to Python: whole numbers are floats where the schema says number."""
        parameter = self.parameters[key]
        rule = rule_of(parameter)
        if not fits(value, rule):
            raise WrongType(key, rule)
        if parameter.annotation is float:
            return float(value)
        if parameter.annotation is NOT_GIVEN and type(parameter.default) is int and value == int(value):
            return int(value)
        is_tuple = typing.get_origin(parameter.annotation) is tuple or parameter.annotation is tuple
        return tuple(value) if is_tuple or isinstance(parameter.default, tuple) else value

    def module(self, request, seed=None):
        """The module for these sizes; with a seed, a new one whose initial values come from the seed."""
        key = tuple(request[SIZES[size]] for size in self.sizes)
        if seed is not None or key not in self.modules:
            seed_all(seed or 0)
            given = {**self.settings, **dict(zip(self.sizes, key))}
            positional = [given.pop(name) for name in self.positional if name in given]
            self.modules[key] = self.cls(*positional, **given).train()
            # Later its tensors are those of curricle, which may have another precision.
            self.declarations[key] = self.declaration(self.modules[key])
        return self.modules[key]

    def declared(self, request):
        self.module(request)
        return self.declarations[tuple(request[SIZES[size]] for size in self.sizes)]

    def declaration(self, module):
        found = []
        for name, tensor in tensors(module).items():
            if tensor.dtype not in KIND_NAMES:
                kinds = ", ".join(str(kind) for kind in KIND_NAMES)
                raise Fault(self.cls, f"`{name}` has the type {tensor.dtype}; curricle can save {kinds}")
            kind = KIND_NAMES[tensor.dtype]
            found.append({"name": name, "shape": list(tensor.shape), "kind": kind, "trainable": is_trainable(tensor)})
        return found

    def initialise(self, request):
        """Writes the values that the constructor gives its tensors."""
        values = tensors(self.module(request, request["seed"]))
        for name, slot in Places(request["places"]).tensors.items():
            slot.copy_(values[name].detach())
        return []

    def forward(self, request):
        if "places" in request:
            self.places = Places(request["places"])
        module, places = self.module(request), self.places
        # Copies, because the module may keep them, and the next step overwrites the shared memory.
        given = {name: slot.clone() for name, slot in places.inputs.items()}
        mine = tensors(module)
        for name, slot in places.tensors.items():
            mine[name].data = slot
        versions = {name: tensor._version for name, tensor in mine.items()}
        seed_all(request["seed"])
        leaves = [given["embeddings"].requires_grad_(), *(mine[name] for name in places.gradients)]
        value = self.value_of(module, given)
        again = lambda **how: self.fault_of(module, given, leaves, request["seed"], **how)
        try:
            gradients = torch.autograd.grad(value, leaves, allow_unused=True)
        except RuntimeError as error:
            # An error of torch itself says nothing of the user's code.
            calls = traceback.extract_tb(error.__traceback__)
            raise error if any(is_mine(call.filename) for call in calls) else again() or error
        if gradients[0] is None:
            raise Fault(self.cls.forward, "returned a loss that does not depend on the embeddings")
        # A sum is much faster than `isfinite` and is not finite if a term is not.
        sums = [value.item(), *(gradient.sum().item() for gradient in gradients if gradient is not None)]
        if not math.isfinite(sum(sums)) and is_finite(given["embeddings"]):
            # An infinite loss explains an infinite gradient.
            what = "a gradient is not finite" if is_finite(value) else f"the loss is {value.item()}"
            fault = again(finite=True, backward=is_finite(value))
            raise fault or Fault(self.cls.forward, f"{what}, though the embeddings are finite")
        places.results["value"].copy_(value.detach())
        for slot, gradient in zip([places.results["gradient"], *places.gradients.values()], gradients):
            slot.copy_(torch.zeros(()) if gradient is None else gradient)
        return self.changed(module, places.tensors, versions)

    def value_of(self, module, given):
        """The loss as a scalar."""
        # Also undoes `set_grad_enabled(False)`, which would change all later steps.
        with torch.enable_grad():
            value = module(**given)
        if not isinstance(value, torch.Tensor):
            what = f"returned {value if value is None else 'a ' + type(value).__name__}"
        elif value.numel() != 1:
            what = f"returned a tensor of shape {list(value.shape)}"
        elif not value.is_floating_point():
            what = f"returned a tensor of type {value.dtype}"
        elif not value.requires_grad:
            what = "returned a value that is detached from the embeddings, so nothing can be learned"
            raise Fault(self.cls.forward, what)
        else:
            return value.reshape(())
        raise Fault(self.cls.forward, f"{what}; `forward` must return one number, as a tensor")

    def changed(self, module, slots, versions):
        """Writes tensors that `forward` replaced, and returns the names of those that curricle must read again."""
        mine = tensors(module)
        if mine.keys() != slots.keys():
            name = next(iter(mine.keys() ^ slots.keys()))
            raise Fault(self.cls.forward, f"created or removed `{name}`; create all tensors in `__init__`")
        names = []
        for name, slot in slots.items():
            tensor = mine[name].detach()
            if tensor.data_ptr() != slot.data_ptr() and slot.numel():
                if tensor.shape != slot.shape or tensor.dtype != slot.dtype:
                    before, now = (f"{t.dtype} {list(t.shape)}" for t in (slot, tensor))
                    raise Fault(self.cls.forward, f"changed `{name}` from {before} to {now}")
                slot.copy_(tensor)
                names.append(name)
            # Some operations, such as batch normalisation, change buffers without counting it as a change.
            elif mine[name]._version != versions[name] or not is_trainable(mine[name]):
                names.append(name)
        return names

    def fault_of(self, module, given, leaves, seed, finite=False, backward=True):
        """Repeats a step that failed, to find the operation. With `finite`, NaN is an error too."""
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            try:
                seed_all(seed)
                with torch.autograd.detect_anomaly(check_nan=finite):
                    with FirstNaN() if finite else contextlib.nullcontext():
                        value = self.value_of(module, given)
                    if backward:
                        torch.autograd.grad(value, leaves, allow_unused=True)
            except FloatingPointError as error:
                return error
            except RuntimeError as error:
                # The traceback of the operation itself is in a warning.
                text = "".join(str(warning.message) for warning in caught)
                lines = re.findall(rf'File "{re.escape(PATH)}", line (\d+)', text)
                place = (PATH, int(lines[-1])) if lines else self.cls.forward
                what = str(error).split(" Hint: ")[0]
                return Fault(place, f"the gradient is not finite: {what}" if finite else what)
        return None


class WrongType(Exception):
    """A setting of the wrong type. curricle checks types first, so this is for other callers."""

    def __init__(self, key, rule):
        super().__init__(f"must be {json.dumps(rule.get('type') or rule)}")
        self.key = key


def fits(value, rule):
    if "enum" in rule:
        return value in rule["enum"]
    if "anyOf" in rule:
        return any(fits(value, part) for part in rule["anyOf"])
    allowed = {"number": (int, float), "integer": int, "boolean": bool, "string": str, "array": list}.get(rule.get("type"))
    return allowed is None or (isinstance(value, allowed) and (not isinstance(value, bool) or allowed is bool))


def tensors(module):
    """Parameters and buffers by name."""
    return {**dict(module.named_parameters()), **dict(module.named_buffers())}


def is_trainable(tensor):
    return isinstance(tensor, torch.nn.Parameter) and tensor.requires_grad


def is_finite(tensor):
    return bool(tensor.detach().isfinite().all())


class FirstNaN(torch.overrides.TorchFunctionMode):
    """Fails at the first operation that gives NaN."""

    def __torch_function__(self, function, kinds, args=(), kwargs=None):
        result = function(*args, **(kwargs or {}))
        if isinstance(result, torch.Tensor) and result.is_floating_point() and bool(result.isnan().any()):
            raise FloatingPointError(f"`{getattr(function, '__name__', function)}` gave nan")
        return result


# ----------------------------------------------------------------------------------------- requests


def serve(offered):
    made = {}
    for request in requests():
        what, number = request["do"], request["loss"]
        try:
            if what == "make":
                made[number] = Loss(offered[request["class"]], request["settings"])
                send({})
            elif what == "declare":
                send({"tensors": made[number].declared(request)})
            elif what == "drop":
                made.pop(number, None)
                send({})
            else:
                if torch.get_num_threads() != request["threads"]:
                    torch.set_num_threads(request["threads"])
                send({"changed": getattr(made[number], what)(request)})
        except WrongType as error:
            send({"setting": error.key, "message": str(error)})
        except BaseException as error:
            send({"error": described(error)})


sys.argv = [PATH]
sys.path.insert(0, FOLDER)
try:
    OFFERED = losses()
    DESCRIBED = [description(name, cls) for name, cls in OFFERED.items()]
except BaseException as error:
    end({"error": described(error)})
SHA256 = hashlib.sha256(SOURCE).hexdigest()
send({"python": sys.version.split()[0], "torch": torch.__version__, "sha256": SHA256, "losses": DESCRIBED})
serve(OFFERED)
