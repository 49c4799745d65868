# What to run, by name; the work is in scripts/. `make` alone lists the targets.
.DEFAULT_GOAL := help
.PHONY: help setup build demo test test-rdma fuzz bench bench-peers accept check-gpu mkl format clean

help:        ## this list
	@sed -n 's/^\([a-z-]*\): .*## /\1\t/p' $(MAKEFILE_LIST) | awk -F '\t' '{ printf "make %-12s %s\n", $$1, $$2 }'
setup:       ## install what is missing (Debian 12), fetch MNIST; nothing where nothing is missing
	@scripts/setup
build: setup ## build the program and the tests, optimised, into build/release
	@scripts/build release
demo: build  ## train LeNet on all of MNIST on 2 ranks through each design and print one table (some 10 minutes of training)
	@scripts/demo
test: setup  ## every test: the suites, those of the protocols under sanitizers, short fuzz runs
	@scripts/test
test-rdma: build ## RDMA by verbs, on Soft-RoCE in a virtual machine (emulation, slow; ONLY="contract bigdl" runs parts)
	@scripts/test-rdma $(ONLY)
fuzz: setup  ## fuzz each target for FUZZ_SECONDS (default 300)
	@scripts/fuzz $${FUZZ_SECONDS:-300}
bench: build ## measure messages, the all-reduce and training against raw limits, in interleaved rounds
	@scripts/bench
bench-peers: build ## the same rounds with OpenMPI and PyTorch, installed apart
	@scripts/bench-peers
accept: build ## what must hold: lost ranks in every phase of every design; accuracy, 5 seeds a design, median at least 97 % (ONLY="faults bigdl" takes parts)
	@scripts/accept $(ONLY)
check-gpu:   ## compile and link the GPU path against a CUDA libtorch; run it where a GPU is
	@scripts/check-gpu
mkl: setup   ## install oneMKL apart, for --blas mkl, and configure the build for it
	@scripts/setup-mkl
format: setup ## clang-format the sources in place
	@scripts/format
clean:       ## remove what was built (data, runs and installed packages stay)
	rm -rf build
