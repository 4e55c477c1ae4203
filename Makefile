PYTHON ?= python3
export PAGECAST_DATA ?= $(abspath ../shared)
BIN := .venv/bin
WHEEL := build/wheel

.PHONY: demo test check bench bench-watermark clean

demo: .venv/base ## replay the bundled sample and draw its figures
	$(BIN)/pagecast run --trace azure_conv_like --model llama-3.1-8b --gpu a100-80gb \
	    --preset vllm-v1@0.33 --slo ttft_p99=1s,itl_p99=50ms --out runs/demo

test: check ## lint, types, layers, then every test
	$(BIN)/python -m pytest -q

check: .venv/test ## ruff here; mypy and import-linter on the built wheel, which is what ships
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	rm -rf build && mkdir build
	$(BIN)/python -m build --wheel --no-isolation --outdir build/dist . >build/log 2>&1 \
	    || { cat build/log; exit 1; }
	$(BIN)/pip install -q --no-deps --target $(WHEEL) build/dist/*.whl
	cd $(WHEEL) && MYPYPATH=. PYTHONPATH=. ../../$(BIN)/mypy --config-file ../../pyproject.toml -p pagecast
	cd $(WHEEL) && PYTHONPATH=. ../../$(BIN)/lint-imports --config ../../pyproject.toml

bench: .venv/test ## print the simulator's speed
	$(BIN)/python -m benchmarks

bench-watermark: .venv/test ## replay a published sweep of the low watermark beside its figures
	$(BIN)/python benchmarks/watermark.py

clean:
	rm -rf .venv build dist runs *.egg-info

.venv/base: pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	    || { echo "Pagecast needs Python 3.11 or newer; set PYTHON=python3.11"; exit 1; }
	$(PYTHON) -m venv .venv
	$(BIN)/pip install -q -e .
	touch $@

.venv/test: .venv/base
	$(BIN)/pip install -q -e '.[test]'
	touch $@
