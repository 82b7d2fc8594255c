package stats

import "math"

// A Match is one comparison of an answer with a baseline's on one task.
type Match struct {
	// Preference is how sure the judge is that the answer is better than the
	// baseline's: 1 it is, 0 the baseline's is, 0.5 a tie.
	Preference float64
	// Longer is the length of the answer minus that of the baseline's, in one
	// unit for all matches.
	Longer float64
}

// WinRate is what matches say of an answerer.
type WinRate struct {
	Rate                float64 // mean preference; NaN over nothing
	SE                  float64 // of Rate, with n-1 in the denominator; NaN below two
	Wins, Losses, Draws int64   // preferences above, below and at 0.5
}

// WinRateOf counts matches as AlpacaEval does: the rate is the mean of the
// preferences, ties at a half.
func WinRateOf(matches []Match) WinRate {
	var w WinRate
	values := make([]float64, len(matches))
	for i, m := range matches {
		values[i] = m.Preference
		switch {
		case m.Preference > 0.5:
			w.Wins++
		case m.Preference < 0.5:
			w.Losses++
		default:
			w.Draws++
		}
	}
	w.Rate, w.SE = Mean(values), StandardError(values)
	return w
}

// LengthControlled is the win rate that the matches would have shown with
// answers as long as the baseline's, and its 95 % interval: a logistic model of
// the preference (fractional logit, Papke and Wooldridge, Journal of Applied
// Econometrics 11, 1996) over tanh of the length difference divided by its
// standard deviation, read where the difference is 0. The interval uses robust
// standard errors. The idea is that of length-controlled AlpacaEval (Dubois et
// al., 2024), but the model is simpler: it has no term of the instruction's
// difficulty, and its figures are not AlpacaEval's. ok is false, and the rate
// not controlled, where lengths do not vary or the model has no finite best
// fit, as where every match went the same way or
// was a tie.
func LengthControlled(matches []Match) (rate, lo, hi float64, ok bool) {
	n := len(matches)
	lengths := make([]float64, n)
	for i, m := range matches {
		lengths[i] = m.Longer
	}
	sd := math.Sqrt(Variance(lengths))
	if n < 10 || !(sd > 0) {
		return math.NaN(), math.NaN(), math.NaN(), false
	}
	var b0, b1 float64
	var h [2][2]float64
	for round := range 101 {
		var g0, g1 float64
		h = [2][2]float64{}
		for _, m := range matches {
			x := math.Tanh(m.Longer / sd)
			p := 1 / (1 + math.Exp(-b0-b1*x))
			e, v := m.Preference-p, p*(1-p)
			g0 += e
			g1 += e * x
			h[0][0] += v
			h[0][1] += v * x
			h[1][1] += v * x * x
		}
		det := h[0][0]*h[1][1] - h[0][1]*h[0][1]
		if !(det > 1e-9) || math.Abs(b0) > 30 || math.Abs(b1) > 30 || round == 100 {
			return math.NaN(), math.NaN(), math.NaN(), false
		}
		d0, d1 := (h[1][1]*g0-h[0][1]*g1)/det, (h[0][0]*g1-h[0][1]*g0)/det
		longest := max(math.Abs(d0), math.Abs(d1), 1)
		b0 += d0 / longest
		b1 += d1 / longest
		if max(math.Abs(d0), math.Abs(d1)) < 1e-12 {
			break
		}
	}
	// The sandwich: a fraction's variance is not that of a coin.
	var m00, m01, m11 float64
	for _, m := range matches {
		x := math.Tanh(m.Longer / sd)
		e := m.Preference - 1/(1+math.Exp(-b0-b1*x))
		m00 += e * e
		m01 += e * e * x
		m11 += e * e * x * x
	}
	if m00 == 0 {
		return math.NaN(), math.NaN(), math.NaN(), false
	}
	det := h[0][0]*h[1][1] - h[0][1]*h[0][1]
	i0, i1 := h[1][1]/det, -h[0][1]/det // first row of the inverse
	se := math.Sqrt(max(0, i0*i0*m00+2*i0*i1*m01+i1*i1*m11))
	logistic := func(v float64) float64 { return 1 / (1 + math.Exp(-v)) }
	return logistic(b0), logistic(b0 - Z95*se), logistic(b0 + Z95*se), true
}
