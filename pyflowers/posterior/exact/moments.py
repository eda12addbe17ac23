"""A few points that stand for many: Gauss's rule of a discrete measure.

For points x_k with weights m_k, the rule's n nodes and weights give Σ m_k f(x_k) exactly for all
polynomials f of degree 2 n - 1. They are eigenvalues, and squared first components of eigenvectors,
of the tridiagonal matrix that Lanczos' method makes of the points (Golub and Welsch 1969; Gautschi
2004, section 2.2.3). The nodes lie among the points, and the weights are positive.

References
----------
Golub and Welsch (1969), Calculation of Gauss quadrature rules, Mathematics of Computation 23(106).
Gautschi (2004), Orthogonal Polynomials: Computation and Approximation.
"""

import numpy as np
from scipy import linalg

from pyflowers.posterior.exact.tabulated import FloatArray
from pyflowers.posterior.vb.distributions import as_floats


def gauss_rule(points: FloatArray, weights: FloatArray, num: int) -> tuple[FloatArray, FloatArray]:
    """Return the nodes and weights of `num` points.

    Parameters
    ----------
    points : array, shape (K,)
        Different numbers.
    weights : array, shape (K,)
        Positive.
    num : int
        How many nodes, well below K.

    Returns
    -------
    nodes, weights : array, shape (num,)
        Ascending nodes, and weights of the same sum.
    """
    basis = np.zeros((num + 1, points.size))
    diagonal, beside = np.empty(num), np.empty(num)
    basis[0] = np.sqrt(weights / weights.sum())
    for i in range(num):
        image = points * basis[i]
        diagonal[i] = image @ basis[i]
        for _ in range(2):  # orthogonal to all before in one go loses digits
            image -= (basis[: i + 1] @ image) @ basis[: i + 1]
        beside[i] = np.sqrt(image @ image)
        basis[i + 1] = image / beside[i]
    nodes, vectors = linalg.eigh_tridiagonal(diagonal, beside[:-1])
    return as_floats(nodes), as_floats(weights.sum() * vectors[0] ** 2)
