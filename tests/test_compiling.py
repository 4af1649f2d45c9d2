import jax
import jax.numpy as jnp
import pytest

from vbagg import compiling


def test_options_that_a_later_jax_does_not_know_are_left_out(monkeypatch):
    assert compiling._known({"xla_no_such_option": 1}) == {"xla_no_such_option": 1}
    monkeypatch.setattr(jax, "__version_info__", (99, 0, 0))
    assert compiling._known({"xla_no_such_option": 1}) == {}
    assert compiling._known(compiling.QUICK) == compiling.QUICK


def test_functions_are_compiled_with_these_options():
    @compiling.jit(static_argnames="twice")
    def double(x, twice):
        return 2 * x if twice else x

    assert double(jnp.ones(()), twice=True) == 2
    with pytest.raises(jax.errors.JaxRuntimeError, match="xla_no_such_option"):
        jax.jit(lambda x: x, compiler_options={"xla_no_such_option": 1})(1.0)
