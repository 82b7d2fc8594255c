"""Writes whole.json: every figure of a whole comparison, from the data themselves.

    pip install scipy statsmodels
    python whole.py DATA > whole.json

DATA is the folder that holds gsm8k and alpacaeval. The comparison is of GSM8K's
four recorded teachers, each answer of the i-th costing (4 - i) milli-dollars, with
what else was spent and what a student says made up by rule, and of AlpacaEval's
published preferences. Nothing here is shared with the program: intervals and tests
are scipy's and statsmodels', or written out from their definitions.
"""
import itertools, json, math, pathlib, sys
import numpy as np
import statsmodels.api as sm
from importlib.metadata import version
from scipy import stats
from statsmodels.stats.contingency_tables import mcnemar
from statsmodels.stats.inter_rater import cohens_kappa
from statsmodels.stats.multitest import multipletests
from statsmodels.stats.proportion import proportion_confint

data = pathlib.Path(sys.argv[1])
lines = lambda p: [json.loads(l) for l in (data / p).read_text(encoding="utf-8").splitlines() if l.strip()]
ids = ["175b_verification", "6b_verification", "175b_finetuning", "6b_finetuning"]
rows = lines("gsm8k/example_model_solutions.jsonl")
right = np.array([[bool(r[i]["is_correct"]) for i in ids] for r in rows])
n, k = right.shape
z = stats.norm.ppf(.975)
out = {"made_with": {p: version(p) for p in ("numpy", "scipy", "statsmodels")}, "tasks": n}


def newcombe(a, b, c, d):
    "method 10 of Newcombe 1998"
    p1, p2 = (a + b) / n, (a + c) / n
    (l1, u1), (l2, u2) = proportion_confint(a + b, n, .05, "wilson"), proportion_confint(a + c, n, .05, "wilson")
    m = (a + b) * (c + d) * (a + c) * (b + d)
    phi = (a * d - b * c) / math.sqrt(m) if m else 0
    side = lambda x, y: math.sqrt(x * x - 2 * phi * x * y + y * y)
    return (b - c) / n - side(p1 - l1, u2 - p2), (b - c) / n + side(u1 - p1, p2 - l2)


def detectable(discordant, level=.05, power=.8):
    "the difference at which Connor's sample size is n, by bisection"
    za, zb = stats.norm.ppf(1 - level / 2), stats.norm.ppf(power)
    need = lambda d: (za * math.sqrt(discordant) + zb * math.sqrt(discordant - d * d)) ** 2 / d ** 2
    lo, hi = 1e-9, discordant
    for _ in range(200):
        mid = (lo + hi) / 2
        lo, hi = (lo, mid) if need(mid) <= n else (mid, hi)
    return hi


# What was spent, in micro-dollars: the answer; for every task whose number is
# divisible by 3 a request that was retried; for every fifth pair of the first two
# teachers a comparison, half for each.
spent = np.zeros((n, k), dtype=int)
for t in range(n):
    for i in range(k):
        spent[t, i] = 1000 * (4 - i) + (70 * (i + 1) if t % 3 == 0 else 0)
    if t % 5 == 0:
        spent[t, 0] += 12
        spent[t, 1] += 13
out["teachers"] = []
for i in range(k):
    p = int(right[:, i].sum())
    lo, hi = proportion_confint(p, n, .05, "wilson")
    ratio = spent[:, i].sum() / 1e6 / p
    # Percentile bootstrap over tasks, of another generator: equal but for chance.
    rng = np.random.default_rng(1)
    pick = rng.integers(0, n, (4000, n))
    boot = np.sort(spent[pick, i].sum(1) / 1e6 / right[pick, i].sum(1))
    out["teachers"].append({
        "teacher": ids[i], "pass": p, "rate": p / n, "low": lo, "high": hi, "usd_per_accepted": ratio,
        "usd_low": float(np.quantile(boot, .025)), "usd_high": float(np.quantile(boot, .975)),
        "unique": int((right[:, i] & ~np.delete(right, i, 1).any(1)).sum()),
        "without": int(np.delete(right, i, 1).any(1).sum()), "usd": spent[:, i].sum() / 1e6,
        "overlap": [float((~right[:, i] & ~right[:, j]).sum() / (~right[:, i]).sum()) for j in range(k)],
    })
out["union"], out["solved_by"] = int(right.any(1).sum()), [int((right.sum(1) == m).sum()) for m in range(k + 1)]
best = min((sum(out["teachers"][i]["usd"] for i in s), s) for m in range(1, k + 1) for s in itertools.combinations(range(k), m)
           if right[:, list(s)].any(1).sum() >= math.ceil(.95 * out["union"] - 1e-9))
out["cheapest"] = {"teachers": [ids[i] for i in best[1]], "usd": best[0]}

pairs = []
for i, j in itertools.combinations(range(k), 2):
    a, b = int((right[:, i] & right[:, j]).sum()), int((right[:, i] & ~right[:, j]).sum())
    c, d = int((~right[:, i] & right[:, j]).sum()), int((~right[:, i] & ~right[:, j]).sum())
    lo, hi = newcombe(a, b, c, d)
    pairs.append({"a": ids[i], "b": ids[j], "both": a, "a_only": b, "b_only": c, "neither": d, "difference": (b - c) / n, "low": lo, "high": hi,
                  "p": float(mcnemar([[a, b], [c, d]], exact=True).pvalue), "detectable": detectable((b + c) / n),
                  "cohen": float(cohens_kappa(np.array([[a, b], [c, d]])).kappa)})
for pair, p in zip(pairs, multipletests([p["p"] for p in pairs], method="holm")[1]):
    pair["p_holm"] = float(p)
out["pairs"] = pairs


def bradley_terry(names, bouts):
    """maximum likelihood as a logit without a constant, the last player at 0, with
    standard errors clustered over tasks, turned into strengths of mean 0; bouts are
    (task, i, j, win)"""
    m = len(names)
    x = np.zeros((len(bouts), m))
    for r, (_, i, j, _) in enumerate(bouts):
        x[r, i], x[r, j] = 1, -1
    y = np.array([b[3] for b in bouts])
    tasks = np.unique([b[0] for b in bouts], return_inverse=True)[1]
    fit = sm.GLM(y, x[:, :-1], family=sm.families.Binomial()).fit(
        tol=1e-14, maxiter=300, cov_type="cluster", cov_kwds={"groups": tasks, "use_correction": False})
    g = tasks.max() + 1
    beta, cov = np.append(fit.params, 0), np.zeros((m, m))
    cov[:-1, :-1] = fit.cov_params() * g / (g - 1)
    centre = np.eye(m) - 1 / m
    value, se = centre @ beta, np.sqrt(np.diag(centre @ cov @ centre.T))
    return [{"teacher": names[i], "value": float(value[i]), "low": float(value[i] - z * se[i]), "high": float(value[i] + z * se[i])} for i in range(m)]


bouts = [(t, i, j, .5 + right[t, i] / 2 - right[t, j] / 2) for t in range(n) for i, j in itertools.combinations(range(k), 2)]
out["ties_half"] = bradley_terry(ids, bouts)
out["ties_dropped"] = bradley_terry(ids, [b for b in bouts if b[3] != .5])

# A student says of each right answer 0.01 nats for each of its characters, 0.5 for
# each of its lines, and a little for its teacher; a token is four characters.
fit = {}
for t, r in enumerate(rows):
    for i, name in enumerate(ids):
        if right[t, i]:
            text = r[name]["solution"]
            fit[t, i] = (.01 * len(text) + .5 * (text.count("\n") + 1) + .1 * i, (len(text) + 3) // 4)


def mean_nll(values):
    "ratio of sums with Taylor's linearisation over tasks and Student's t"
    nll, tokens = np.array([v[0] for v in values]), np.array([v[1] for v in values])
    r, m = nll.sum() / tokens.sum(), len(values)
    return r, (nll - r * tokens) / tokens.mean(), m


out["fit"] = []
for i in range(k):
    r, e, m = mean_nll([fit[t, i] for t in range(n) if (t, i) in fit])
    half = stats.t.ppf(.975, m - 1) * e.std(ddof=1) / math.sqrt(m)
    out["fit"].append({"teacher": ids[i], "tasks": m, "nll": r, "low": r - half, "high": r + half})
out["fit_pairs"] = []
for i, j in itertools.combinations(range(k), 2):
    both = [t for t in range(n) if (t, i) in fit and (t, j) in fit]
    ri, ei, m = mean_nll([fit[t, i] for t in both])
    rj, ej, _ = mean_nll([fit[t, j] for t in both])
    half = stats.t.ppf(.975, m - 1) * (ei - ej).std(ddof=1) / math.sqrt(m)
    out["fit_pairs"].append({"a": ids[i], "b": ids[j], "common": m, "difference": ri - rj, "low": ri - rj - half, "high": ri - rj + half})

prefs = [p for p in lines("alpacaeval/preferences.jsonl") if p["preference"] is not None]
length = {}
for name in sorted({p[g] for p in prefs for g in ("generator_1", "generator_2")}):
    for a in lines(f"alpacaeval/{name}.jsonl"):
        length[name, a["instruction"]] = len(a["output"])
out["alpacaeval"] = []
names = sorted({p[g] for p in prefs for g in ("generator_1", "generator_2")})
for name in names:
    mine = [p for p in prefs if p["generator_2"] == name]
    win = np.array([p["preference"] - 1 for p in mine])
    if not len(mine) or name == "gpt4_1106_preview":
        continue
    longer = np.array([length[name, p["instruction"]] - length[p["generator_1"], p["instruction"]] for p in mine], dtype=float)
    x = np.tanh(longer / longer.std(ddof=1))
    g = sm.GLM(win, sm.add_constant(x), family=sm.families.Binomial()).fit(cov_type="HC0", tol=1e-14, maxiter=200)
    b, se = float(g.params[0]), float(g.bse[0])
    logistic = lambda v: 1 / (1 + math.exp(-v))
    out["alpacaeval"].append({
        "teacher": name, "win_rate": float(win.mean()), "standard_error": float(win.std(ddof=1) / math.sqrt(len(win))),
        "wins": int((win > .5).sum()), "losses": int((win < .5).sum()), "draws": int((win == .5).sum()),
        "controlled": logistic(b), "controlled_low": logistic(b - z * se), "controlled_high": logistic(b + z * se)})
place = {name: i for i, name in enumerate(names)}
duels = [(p["instruction"], place[p["generator_2"]], place[p["generator_1"]], p["preference"] - 1) for p in prefs if p["generator_1"] != p["generator_2"]]
out["alpacaeval_ties_half"] = bradley_terry(names, duels)
out["alpacaeval_ties_dropped"] = bradley_terry(names, [d for d in duels if d[3] != .5])
print(json.dumps(out, indent=1))
