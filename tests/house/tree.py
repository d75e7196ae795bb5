# SPDX-License-Identifier: BSD-3-Clause
# The house rules of CONTRIBUTING.md as functions from a tree (path -> text) to what breaks them. Standard library only.
import collections
import fnmatch
import re
import subprocess
from pathlib import Path, PurePosixPath

ROOT = Path(__file__).resolve().parents[2]

# What each layer may include of ours. The first prefix that matches a path is its layer.
LAYERS = {
    "kernels": ["kernels"],
    "tensor": ["kernels", "tensor"],
    "protocols": ["protocols"],
    "actors": ["kernels", "tensor", "protocols", "actors"],
    "apps": ["kernels", "tensor", "protocols", "actors", "apps"],
}
# Assertions are on for everybody; who sizes a frame knows what forms a tensor has. They need nothing.
EVERYBODY_MAY_INCLUDE = {"kernels/assert.hpp", "kernels/form.hpp"}

# Third-party headers and who alone may include them; a layer's tests may include what the layer may.
OWNERS = {
    "caf": (r"caf/", ["actors", "apps"]),
    "cuda": (r"cuda|cublas|cudnn|nccl|cooperative_groups", ["kernels/cuda"]),
    "capnp": (r"capnp/|kj/|.*\.capnp\.h$", ["protocols/wire"]),
    "onnx": (r"onnx/|google/protobuf", ["tensor/onnx"]),
    "asio": (r"boost/(asio|beast)", ["actors/net", "actors/http", "actors/sockets"]),
}
# Headers that cost seconds in every file that includes them: one source each.
COSTLY = {"toml++": r"toml\+\+/|toml\.hpp", "CLI11": r"CLI/"}

AT_THE_ROOT = {"kernels", "tensor", "protocols", "actors", "apps", "config", "tests", "cmake", "dev", "CMakeLists.txt",
               "CMakePresets.json", "README.md", "CONTRIBUTING.md", "LICENSE"}

HEADERS = {".hpp", ".cuh", ".h"}
CPP = {".cpp", ".cu"} | HEADERS
CODE = {".capnp", ".py", ".sh"} | CPP
MAX_LINES = 600
MAX_FILES_IN_A_ROOM = 15

# Functions of <algorithm>. Which other header brings them along differs between compilers, but for std::min and its like; and
# std::remove is another one in <cstdio>.
ALGORITHM = re.compile(r"\bstd::(?:ranges::)?((?:find|count|any_of|all_of|none_of|for_each)(?:_if|_n)?|remove_if|(?:stable_)?sort|"
                       r"(?:min|max|minmax)_element|clamp|transform|unique|binary_search|reverse|rotate|nth_element|shuffle)\(")

INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*([<"])([^>"]+)[>"]', re.MULTILINE)


def project_files(root=ROOT):
    """Every file that is or could be committed: path -> text."""
    listed = subprocess.run(["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"], cwd=root, check=True,
                            capture_output=True, text=True).stdout
    return {path: (root / path).read_text(encoding="utf-8", errors="replace")
            for path in listed.split("\0") if path and (root / path).is_file()}


def suffix(path):
    return PurePosixPath(path).suffix


def is_code(path, text):
    return suffix(path) in CODE or text.startswith("#!")


def inside(path, *folders):
    return any(path.startswith(folder + "/") for folder in folders)


def tested(path):
    """A test counts as part of the layer that it tests: tests/actors/x.cpp as actors/x.cpp."""
    return path.removeprefix("tests/")


def includes(text):
    """(is it quoted, what it names), in order."""
    return [(quote == '"', name) for quote, name in INCLUDE.findall(text)]


def each_include(files):
    for path, text in files.items():
        if suffix(path) in CPP:
            for quoted, name in includes(text):
                yield path, quoted, name


def layers_include_only_to_their_left(files):
    for path, quoted, name in each_include(files):
        layer = tested(path).split("/")[0]
        if not quoted or layer not in LAYERS or name in EVERYBODY_MAY_INCLUDE:
            continue
        # A test includes helpers of its own layer's tests and of those to the left; nothing else includes a test.
        helpers = [f"tests/{left}" for left in LAYERS[layer]] if inside(path, "tests") else []
        if not inside(name, *LAYERS[layer], *helpers):
            yield f'{path} includes "{name}": {layer} may include {", ".join(LAYERS[layer])}'


def tensor_and_protocols_never_see_each_other(files):
    for path, _, name in each_include(files):
        for one, other in ("tensor", "protocols"), ("protocols", "tensor"):
            if inside(tested(path), one) and inside(name, other):
                yield f'{path} includes "{name}"'


def machines_know_no_clock_thread_or_chance(files):
    outside = {"chrono", "ctime", "thread", "mutex", "atomic", "condition_variable", "future", "random", "iostream", "fstream"}
    for path, _, name in each_include(files):
        if inside(path, "protocols") and name in outside:
            yield f"{path} includes <{name}>: time and randomness are arguments"


def owned(what):
    """The rule that only the owners of a third-party library include it."""
    pattern, owners = OWNERS[what]
    # Tests stand one folder deep: those of protocols/wire and actors/net are in tests/protocols and tests/actors.
    testers = [f"tests/{owner.split('/')[0]}" for owner in owners]

    def rule(files):
        for path, _, name in each_include(files):
            if re.match(pattern, name) and not inside(path, *owners, *testers):
                yield f"{path} includes {name}: only {', '.join(owners)} may"
    return rule


def costly_headers_have_one_source_each(files):
    for what, pattern in COSTLY.items():
        users = sorted({path for path, _, name in each_include(files) if re.match(pattern, name)})
        if len(users) > 1 or any(suffix(user) in HEADERS for user in users):
            yield f"{what} is included by {', '.join(users)}: one source, no header"


def no_header_includes_all_of_caf(files):
    for path, _, name in each_include(files):
        if name == "caf/all.hpp" and suffix(path) in HEADERS:
            yield f"{path} includes caf/all.hpp, which costs 1.7 s a file"


def project_includes_are_quoted_from_the_root(files):
    for path, quoted, name in each_include(files):
        generated = name + ".in" in files or (name.endswith(".capnp.h") and name.removesuffix(".h") in files)
        if quoted and name not in files and not generated:
            yield f'{path} includes "{name}", which is no file of ours from the root'
        if not quoted and name in files:
            yield f"{path} includes <{name}>: ours are quoted"


def a_source_includes_its_own_header_first(files):
    # With this, the compiler checks that every such header is self-contained.
    for path, text in files.items():
        header = str(PurePosixPath(path).with_suffix(".hpp"))
        if suffix(path) in {".cpp", ".cu"} and header in files and includes(text)[:1] != [(True, header)]:
            yield f'{path} does not include "{header}" first'


def who_uses_an_algorithm_includes_it(files):
    for path, text in files.items():
        if suffix(path) in CPP and (used := ALGORITHM.search(text)):
            own = str(PurePosixPath(path).with_suffix(".hpp"))  # a source's header may include it
            if (False, "algorithm") not in includes(text) + includes(files.get(own, "")):
                yield f"{path} uses std::{used[1]} and does not include <algorithm>"


UNNAMED = re.compile(r"^namespace \{$(.*?)^\} // namespace$", re.MULTILINE | re.DOTALL)
# At the left edge, with a type before the name: a function, not a class, an alias or a macro.
FREE_FUNCTION = re.compile(r"^(?!using |template|return |class |struct |enum |namespace |[#/}])[\w:\[][^=;(){}\n]*?[\s&*](\w+)\(", re.MULTILINE)


def functions_of_unnamed_namespaces_are_unique_in_their_folder(files):
    """A dozen sources compile as one, where a call finds its neighbours' functions of the same name too."""
    first = {}
    for path in sorted(files):
        if suffix(path) != ".cpp" or inside(path, "tests", "kernels/cuda", "apps/examples"):
            continue
        names = {name for part in UNNAMED.findall(files[path]) for name in FREE_FUNCTION.findall(part)}
        for name in sorted(names):
            other = first.setdefault((PurePosixPath(path).parent, name), path)
            if other != path:
                yield f"{path}: {other} has a function {name} in its unnamed namespace, too; give this one another name, or both the same one in a header"


# How a protocol's value begins (protocols/protocol.hpp).
PROTOCOL = re.compile(r'\.name = "([\w-]+)",\s*\.summary = ')
THE_DEFAULT_ONE = "protocols/spec.hpp"


def a_protocol_is_named_by_its_own_file_alone(files):
    """Whoever needs to know something of a protocol asks its value. Files of protocols may list others, and compare none."""
    names = {name: path for path, text in files.items() if inside(path, "protocols") for name in PROTOCOL.findall(text)}
    quoted = re.compile('"(%s)"' % "|".join(map(re.escape, sorted(names)))) if names else None
    for path, text in files.items():
        if not quoted or suffix(path) not in CPP or inside(path, "tests") or path == THE_DEFAULT_ONE:
            continue
        for number, line in enumerate(text.splitlines(), 1):
            code = line.split("//")[0]
            for found in quoted.finditer(code):
                before, after = code[:found.start()], code[found.end():]
                compared = re.search(r"[!=]=\s*$", before) or re.match(r"\s*[!=]=", after)
                # An ordinary word: a parameter, a key's word beside its numbers, or a key of JSON beside the field of that name.
                ordinary = re.search(r"_parameter\($|integer_or_word\{\{[^{}]*\}, $", before) or re.match(r", [^{}\"]*[.>]%s\b" % re.escape(found[1]), after)
                if compared or not (ordinary or path in names.values()):
                    yield f'{path}:{number} names the protocol "{found[1]}" of {names[found[1]]}: ask what it says of itself'


def headers_have_pragma_once(files):
    for path, text in files.items():
        if suffix(path) in HEADERS and "#pragma once" not in text.splitlines():
            yield f"{path} has no #pragma once"


def code_starts_with_licence_and_purpose(files):
    for path, text in files.items():
        if not is_code(path, text):
            continue
        lines = text.splitlines()[1 if text.startswith("#!") else 0:]
        comment = "//" if suffix(path) in CPP else "#"
        purpose = (comment + " ", '"""') if suffix(path) == ".py" else (comment + " ",)
        if lines[:1] != [f"{comment} SPDX-License-Identifier: BSD-3-Clause"]:
            yield f"{path} does not start with its SPDX line"
        elif not lines[1:] or not lines[1].startswith(purpose):
            yield f"{path} does not say, in its next line, what it holds"


def files_stay_within_one_head(files):
    for path, text in files.items():
        lines = len(text.splitlines())
        if is_code(path, text) and lines > MAX_LINES:
            yield f"{path} has {lines} lines; {MAX_LINES} at most"


# At the left edge: a class with a body, and a member's definition outside of it.
CLASS = re.compile(r"(?:class|struct) ([\w:]+)[^;()]*\{$")
MEMBER = re.compile(r"(?!namespace |using |return |[#/} ]).*?((?:\w+::)*\w+)::~?(?:operator\W+|\w+)\(")


def lines_of_classes(text):
    """(class, line number, lines) of each class's body and of each member that is defined outside of it."""
    lines = text.splitlines()
    for number, line in enumerate(lines):
        if begun := CLASS.match(line) or MEMBER.match(line):
            end = next((i for i in range(number, len(lines)) if lines[i].startswith("}") or (i == number and line.endswith(("}", ";")))),
                       len(lines) - 1)
            yield begun[1], number + 1, end - number + 1


def classes_stay_within_one_head(files):
    """A class that is cut over several sources is no smaller."""
    lines, where = collections.Counter(), collections.defaultdict(set)
    for path, text in sorted(files.items()):
        if suffix(path) not in CPP or inside(path, "tests"):
            continue
        for name, _, count in lines_of_classes(text):
            lines[PurePosixPath(path).parent, name] += count
            where[PurePosixPath(path).parent, name].add(path)
    for (room, name), count in lines.items():
        if count > MAX_LINES:
            yield f"class {name} has {count} lines in {', '.join(sorted(where[room, name]))}; {MAX_LINES} at most"


def files_name_no_machine(files):
    # Written so that this file does not break its own rule.
    patterns = [
        r"(?<![\w.}~*])/(?:work|root|home/\w+|Users/\w+)/",
        r"\b(?:deb\.debian|ftp\.debian|snapshot\.debian|pypi|npmjs|crates)\.(?:org|com|io)\b",
        r"(?i)\b(?:clau" r"de|anthro" r"pic|open" r"ai|chat" r"gpt|co" r"pilot)\b",
    ]
    for path, text in files.items():
        for number, line in enumerate(text.splitlines(), 1):
            for found in filter(None, (re.search(pattern, line) for pattern in patterns)):
                yield f"{path}:{number} names '{found.group()}'"


# A file's name in a page or comment: folders, a stem in which * stands for any letters, and an ending that our sources have.
NAMED = re.compile(r"(?<![\w./<$*-])((?:[\w.*-]+/)*[\w.*-]*\.(?:hpp|cpp|cuh?|capnp|py|md|cmake|sh|cases|js|\*(?=`)))(?!\.?[\w/*-])")
NO_FILES = re.compile(r"(?:^|/)(?:FILE|NAME|[A-Z]{3,}\.\w+$)|" + OWNERS["caf"][0])  # placeholders, and CAF's


def spoken_lines(path, text):
    """(number, what it says) of the lines of a page, without its blocks of code, or of the comments of a source."""
    if suffix(path) == ".md":
        text = re.sub(r"^```.*?^```$", lambda block: "\n" * block[0].count("\n"), text, flags=re.DOTALL | re.MULTILINE)
    elif not is_code(path, text) and suffix(path) not in {".txt", ".cmake", ".toml", ".js"}:
        return
    comment = "" if suffix(path) == ".md" else r"(?:^|\s)//" if suffix(path) in CPP | {".js"} else r"(?:^\s*|\s\s)#"
    for number, line in enumerate(text.splitlines(), 1):
        if found := re.search(comment + "(.*)", line):
            yield number, found[1]


def files_that_pages_and_comments_name_exist(files):
    """Whole from the root, or its end: worker.cpp, net/lane.hpp, _test.cpp. So a file's new name reaches all who spoke of it."""
    for path, text in files.items():
        for number, line in spoken_lines(path, text):
            for name in NAMED.findall(line):
                pattern = re.sub(r"^(\.\.?/)+", "", name).replace("...", "*")
                either = (pattern, ("*" if pattern.startswith(("_", ".")) else "*/") + pattern)
                if not NO_FILES.search(pattern) and not any(fnmatch.fnmatchcase(file, one) for one in either for file in files):
                    yield f"{path}:{number} names {name}, which is no file of ours"


def rooms_of_actors_stay_small(files):
    """Whoever opens a room sees at once what is in it."""
    rooms = collections.defaultdict(list)
    for path in sorted(files):
        if inside(path, "actors") and suffix(path) in CPP:
            rooms[PurePosixPath(path).parent].append(path)
    for room, inhabitants in rooms.items():
        if len(inhabitants) > MAX_FILES_IN_A_ROOM:
            yield f"{room} has more than {MAX_FILES_IN_A_ROOM} headers and sources, give some a room of their own: {', '.join(inhabitants)}"


CLASS_WITH_TESTS = re.compile(r"^class (\w+)\(.*\n(?:(?!class |def |if ).*\n)*?    def test_", re.MULTILINE)


def every_test_is_run(files):
    """`dev` or a CMakeLists.txt in its folder or above names its file; where that names classes, too, the test is in one of them."""
    for path, text in files.items():
        if not inside(path, "tests") or not path.endswith(("_test.cpp", "_test.py")):
            continue
        name = PurePosixPath(path).name
        lists = "\n".join(files.get(f"{folder}/CMakeLists.txt", "") for folder in PurePosixPath(path).parents) + files["dev"]
        calls = re.findall(rf"\b(apps_test|troupe_python_tests)\({name.removesuffix('_test.py')}\b([^)]*)\)", lists)
        if not calls and not re.search(rf"\b{name}\b", lists):
            yield f"{path} is a test that nothing runs"
        if calls and all("CLASSES" in words or kind == "troupe_python_tests" for kind, words in calls):
            chosen = {word for _, words in calls for word in words.split()}
            for each in set(CLASS_WITH_TESTS.findall(text)) - chosen:
                yield f"{path} has tests in the class {each}, which nothing runs"


def the_root_holds_only_the_house(files):
    for entry in sorted({path.split("/")[0] for path in files}):
        if entry not in AT_THE_ROOT and not entry.startswith("."):
            yield f"{entry} stands at the root"


RULES = {
    "layers_include_only_to_their_left": layers_include_only_to_their_left,
    "tensor_and_protocols_never_see_each_other": tensor_and_protocols_never_see_each_other,
    "machines_know_no_clock_thread_or_chance": machines_know_no_clock_thread_or_chance,
    "only_actors_and_apps_include_caf": owned("caf"),
    "only_kernels_cuda_includes_cuda": owned("cuda"),
    "only_protocols_wire_includes_capnp": owned("capnp"),
    "only_tensor_onnx_includes_onnx": owned("onnx"),
    "only_actors_net_includes_asio": owned("asio"),
    "costly_headers_have_one_source_each": costly_headers_have_one_source_each,
    "no_header_includes_all_of_caf": no_header_includes_all_of_caf,
    "project_includes_are_quoted_from_the_root": project_includes_are_quoted_from_the_root,
    "a_source_includes_its_own_header_first": a_source_includes_its_own_header_first,
    "who_uses_an_algorithm_includes_it": who_uses_an_algorithm_includes_it,
    "functions_of_unnamed_namespaces_are_unique_in_their_folder": functions_of_unnamed_namespaces_are_unique_in_their_folder,
    "a_protocol_is_named_by_its_own_file_alone": a_protocol_is_named_by_its_own_file_alone,
    "headers_have_pragma_once": headers_have_pragma_once,
    "code_starts_with_licence_and_purpose": code_starts_with_licence_and_purpose,
    "files_stay_within_one_head": files_stay_within_one_head,
    "classes_stay_within_one_head": classes_stay_within_one_head,
    "files_name_no_machine": files_name_no_machine,
    "files_that_pages_and_comments_name_exist": files_that_pages_and_comments_name_exist,
    "rooms_of_actors_stay_small": rooms_of_actors_stay_small,
    "every_test_is_run": every_test_is_run,
    "the_root_holds_only_the_house": the_root_holds_only_the_house,
}
