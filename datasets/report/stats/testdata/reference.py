"""Writes reference.json, the figures that the tests of this package compare with.

    pip install scipy statsmodels choix krippendorff
    python reference.py > reference.json

Every figure comes from a library that others have checked, or is written out
from its definition here where none has it.
"""
import itertools, json, math
import numpy as np
import scipy, statsmodels, choix, krippendorff
from scipy import stats
from statsmodels.stats.contingency_tables import mcnemar
from statsmodels.stats.inter_rater import fleiss_kappa, cohens_kappa
from statsmodels.stats.multitest import multipletests
from statsmodels.stats.proportion import proportion_confint
import statsmodels.api as sm
from importlib.metadata import version

rng = np.random.default_rng(20261130)
out = {"made_with": {p: version(p) for p in ("numpy", "scipy", "statsmodels", "choix", "krippendorff")}}

out["wilson"] = [
    {"pass": p, "n": n, "low": lo, "high": hi}
    for p, n in [(742, 1319), (0, 10), (10, 10), (1, 3), (286, 1319), (40, 50), (999, 1000), (5, 100000)]
    for lo, hi in [proportion_confint(p, n, 0.05, "wilson")]
]
out["mcnemar"] = [
    {"b": b, "c": c, "p": float(mcnemar([[0, b], [c, 0]], exact=True).pvalue) if b + c else 1.0}
    for b, c in [(306, 79), (360, 76), (499, 43), (209, 152), (293, 64), (260, 88), (0, 0), (5, 5), (1, 0), (0, 12), (7, 8), (2000, 1900), (600, 3)]
]
ps = [[.01, .04, .03, .005], [.5, .5, .5], [.2], [1e-9, .049, .05, .9, .01], sorted(rng.uniform(size=12).tolist())]
out["holm"] = [{"p": p, "adjusted": multipletests(p, method="holm")[1].tolist()} for p in ps]
out["student"] = [{"df": df, "point": float(stats.t.ppf(.975, df))} for df in (1, 2, 5, 9, 29.5, 120, 5000)]
out["normal"] = [{"z": z, "p": float(stats.norm.cdf(z))} for z in (-6, -1.96, -.3, 0, 1, 3.5)]


def sign_flip(d):
    "two-sided p by going through all signs"
    d = [x for x in d if x]
    s = abs(sum(d))
    if not d:
        return 1.0
    hits = sum(abs(sum(x * g for x, g in zip(d, signs))) >= s for signs in itertools.product((1, -1), repeat=len(d)))
    return hits / 2 ** len(d)


out["sign_flip"] = [{"diffs": d, "p": sign_flip(d)} for d in (
    [1, 1, 1, 1, 1], [1, -1], [0, 0], [3, 1, -2, 4, 4, -1, 2], [-4, -4, 0, 1, -3, -2, -2, -5], rng.integers(-4, 5, 14).tolist(), rng.integers(-1, 3, 16).tolist())]

tables = [[[436, 306], [79, 498]], [[20, 5], [10, 15]], [[10, 2, 3], [1, 12, 2], [0, 4, 16]]]
out["cohen"] = [{"table": t, "kappa": float(cohens_kappa(np.array(t)).kappa)} for t in tables]
rated = [[0, 0, 0, 0, 14], [0, 2, 6, 4, 2], [0, 0, 3, 5, 6], [0, 3, 9, 2, 0], [2, 2, 8, 1, 1], [7, 7, 0, 0, 0], [3, 2, 6, 3, 0], [2, 5, 3, 2, 2], [6, 5, 2, 1, 0], [0, 2, 2, 3, 7]]
out["fleiss"] = [{"counts": c, "kappa": float(fleiss_kappa(np.array(c)))} for c in (rated, [[3, 1], [4, 0], [0, 4], [2, 2], [1, 3]])]
gaps = [[1, 0], [2, 0], [0, 3], [1, 2], [0, 0], [3, 0], [1, 1], [0, 2], [2, 1]]
out["krippendorff"] = [{"counts": c, "alpha": float(krippendorff.alpha(value_counts=np.array(c), level_of_measurement="nominal"))} for c in (rated, gaps)]


def bradley_terry(wins):
    "maximum likelihood by choix over whole comparisons; halves by doubling the counts"
    n = len(wins)
    data = [(i, j) for i in range(n) for j in range(n) for _ in range(int(round(2 * wins[i][j])))]
    r = choix.opt_pairwise(n, data, alpha=0, method="Newton-CG", tol=1e-12)
    r = r - r.mean()
    # Standard errors from the inverse of the information under a mean of 0.
    info = np.zeros((n, n))
    for i in range(n):
        for j in range(n):
            if i != j:
                p = 1 / (1 + math.exp(r[j] - r[i]))
                info[i, i] += (wins[i][j] + wins[j][i]) * p * (1 - p)
                info[i, j] -= (wins[i][j] + wins[j][i]) * p * (1 - p)
    return r.tolist(), np.sqrt(np.diag(np.linalg.pinv(info))).tolist()


for wins in (
    [[0, 306, 360, 499], [79, 0, 209, 293], [76, 152, 0, 260], [43, 64, 88, 0]],
    [[0, 3, 1], [2, 0, 4], [5, 1, 0]],
    [[0, 10.5, 0], [4.5, 0, 2], [0, 7, 0]],
):
    value, se = bradley_terry(wins)
    out.setdefault("bradley_terry", []).append({"wins": wins, "value": value, "se": se})

n = 60
longer = np.round(rng.normal(40, 200, n)).tolist()
pref = [float(np.clip(round(x * 20) / 20, 0, 1)) for x in rng.beta(1.2, 1.0, n) * .8 + .2 * (np.array(longer) > 0)]
x = np.tanh(np.array(longer) / np.std(longer, ddof=1))
fit = sm.GLM(pref, sm.add_constant(x), family=sm.families.Binomial()).fit(cov_type="HC0", tol=1e-14, maxiter=200)
b, se = float(fit.params[0]), float(fit.bse[0])
sigmoid = lambda v: 1 / (1 + math.exp(-v))
z = stats.norm.ppf(.975)
out["length_controlled"] = [{"preference": pref, "longer": longer, "rate": sigmoid(b), "low": sigmoid(b - z * se), "high": sigmoid(b + z * se)}]


def pass_at_k(n, c, k):
    return 1 - math.comb(n - c, k) / math.comb(n, k)


out["pass_at_k"] = [{"n": n, "c": c, "k": k, "value": pass_at_k(n, c, k)} for n, c, k in [(10, 3, 1), (10, 3, 5), (200, 1, 100), (5, 5, 5), (5, 0, 3), (16, 15, 8)]]
print(json.dumps(out, indent=1))
