"""The checks of this folder find what they are for, and let pass what is right."""
import unittest

import coroutines
import edges
import paths

FOLDERS = {"base", "metrics", "storage", "compute", "transport", "exchange", "training"}


class Edges(unittest.TestCase):
    def source(self, path, text):
        return edges.check_source(path, text, FOLDERS)

    def test_downwards_passes(self):
        self.assertEqual(self.source("src/exchange/a.cpp", '#include "transport/endpoint.h"\n#include "base/loop.h"\n'), [])
        self.assertEqual(self.source("src/training/a.cpp", '#include "exchange/exchange.h"\n'), [])
        self.assertEqual(self.source("apps/dlobd/a.cpp", '#include "training/run.h"\nauto x = getenv("A");'), [])

    def test_upwards_and_sideways_fail(self):
        self.assertEqual(len(self.source("src/transport/a.h", '#include "exchange/exchange.h"\n')), 1)
        self.assertEqual(len(self.source("src/base/a.h", '#include "metrics/phases.h"\n')), 1)
        self.assertEqual(len(self.source("src/storage/a.h", '  #  include "compute/arena.h"\n')), 1)

    def test_fences(self):
        self.assertEqual(len(self.source("src/compute/a.cpp", "#include <torch/torch.h>\n#include <ATen/ATen.h>\n")), 2)
        self.assertEqual(self.source("src/compute/torch/a.cpp", "#include <torch/torch.h>\n"), [])
        self.assertEqual(len(self.source("src/transport/tcp/a.cpp", "#include <rdma/fabric.h>\n")), 1)
        self.assertEqual(self.source("src/transport/fabric/a.cpp", "#include <rdma/fabric.h>\n"), [])

    def test_compute_does_not_know_its_plug_in(self):
        self.assertEqual(len(self.source("src/compute/a.cpp", '#include "compute/torch/model.h"\n')), 1)

    def test_environment(self):
        self.assertEqual(len(self.source("src/base/a.cpp", 'std::getenv("HOME")')), 1)
        self.assertEqual(len(self.source("src/base/a.cpp", "for (char** entry = environ; *entry; ++entry) {}")), 1)
        self.assertEqual(self.source("src/base/a.cpp", "metrics::Environment environment;"), [])

    def test_unknown_folder(self):
        self.assertEqual(len(self.source("src/utils/a.cpp", "")), 1)

    def test_links(self):
        self.assertEqual(edges.check_links("src/records/CMakeLists.txt", "dlobd_library(records SOURCES a.cpp LINKS dlobd_storage)"), [])
        self.assertEqual(len(edges.check_links("src/records/CMakeLists.txt", "dlobd_library(records LINKS dlobd_compute)")), 1)
        self.assertEqual(len(edges.check_links("src/transport/CMakeLists.txt", "target_link_libraries(dlobd_transport PRIVATE dlobd_cluster)")), 1)
        self.assertEqual(edges.check_links("src/transport/CMakeLists.txt", "# dlobd_library(transport LINKS dlobd_cluster)"), [])

    def test_edges_have_no_circle(self):
        for folder in edges.EDGES:
            for below in edges.permitted_links(folder):
                self.assertNotIn(folder, edges.permitted_includes(below), f"{folder} and {below}")


class Coroutines(unittest.TestCase):
    def bad(self, text):
        self.assertEqual(len(coroutines.check("a.cpp", text)), 1, text)

    def good(self, text):
        self.assertEqual(coroutines.check("a.cpp", text), [], text)

    def test_braces_in_the_expression(self):
        self.bad("void f() { auto r = co_await send(Message{1, 2}); }")
        self.bad("void f() { co_await send(\n    peer,\n    {1, 2}); }")
        self.bad("void f() { g(co_await next(), Message{}); }")
        self.bad("void f() { if (co_await send({})) { h(); } }")
        self.bad("void f() { co_return co_await send({}); }")
        self.bad("void f() { co_await run([x = 1] { return x; }); }")
        self.bad("void f() { co_await run([name] { return 1; }); }")
        self.bad("void f() { co_await run([&a](int x) -> Task<int> { co_return x; }); }")
        self.bad("void f() { co_await run([&a] { return 1; }, {1}); }")

    def test_braces_around_it(self):
        self.bad("void f() { return g(Message{co_await next()}); }")
        self.bad("void f() { auto x = ({ auto r = co_await next(); r; }); }")

    def test_blocks_pass(self):
        self.good("void f() { auto r = co_await send(m); if (!r) { co_return; } Message m{1}; }")
        self.good("void f() { if (co_await next()) { Message m{1}; co_await send(std::move(m)); } }")
        self.good("void f() { for (auto x : co_await all()) { use(x); } while (co_await next()) { h(); } }")
        self.good("auto l = [](int x) -> asio::awaitable<void> { co_await send(x); };")
        self.good("switch (k) { case Kind::a: { co_await send(x); break; } }")
        self.good("void f() { co_await run([&keep, this](auto h) { keep(A{1}); b(); }, use_task); }")
        self.good("void f() { co_await run([] { for (;;) { g(); } }, use_task); }")
        self.good("struct A { asio::awaitable<void> f() override { co_await g(); } };")

    def test_comments_and_strings_do_not_count(self):
        self.good('void f() { co_await log("{}"); /* co_await g({}) */ } // co_await h({})')
        self.good("void f() { const long n = 1'000; co_await g('{'); }")


class Paths(unittest.TestCase):
    FILES = {"src", "src/exchange", "src/exchange/kinds.h", "src/exchange/ring.cpp", "docs", "docs/a.md"}

    def missing(self, text):
        return len(paths.check("README.md", text, self.FILES))

    def test_what_is_there_passes(self):
        self.assertEqual(self.missing("`src/exchange/kinds.h`, `exchange/kinds.h`, `ring.cpp`, `src/exchange/`, `docs/a.md`"), 0)

    def test_what_is_not_there_is_told(self):
        self.assertEqual(self.missing("`src/exchange/counts.cpp` and `factory.cpp`, `exchange/rings.cpp`, `src/stacks`"), 4)
        self.assertEqual(self.missing("`src/exchange/kinds.{h,cpp}`"), 1)
        self.assertEqual(self.missing("`inds.h`"), 1)

    def test_what_is_no_path_of_the_project_passes(self):
        self.assertEqual(self.missing("`/etc/hosts`, `all.json`, `src/<name>.cpp`, `a/b`, `build/x.cpp`, `make src/no.cpp`"), 0)


if __name__ == "__main__":
    unittest.main()
