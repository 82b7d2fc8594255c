// Package stats holds the statistics of the teacher comparison: intervals and
// tests for rates that are paired on the same tasks, agreement between judges,
// ratings from pairwise wins, and what a set of teachers solves together.
//
//	p := stats.McNemar(209, 152)                       // 0.00315…
//	lo, hi := stats.Newcombe(306, 209, 152, 652, Z95)  // of the difference
//
// Everything is pure: numbers in, numbers out. What needs chance takes a seed
// and gives the same on every machine. Nothing is corrected, smoothed or
// floored behind the caller's back; where a procedure has variants, the doc
// comment names the one that is used and where it is from. Over no data a
// function gives the widest interval, a p value of 1 or NaN, as its comment
// says, and never a number that looks measured.
package stats

import "math"

// Z95 is the two-sided 95 % point of the normal distribution.
const Z95 = 1.959963984540054

// Normal is the distribution function of the standard normal distribution.
func Normal(z float64) float64 { return math.Erfc(-z/math.Sqrt2) / 2 }

// NormalPoint is the two-sided point of the standard normal distribution at a
// confidence in (0, 1): 1.96 at 0.95.
func NormalPoint(confidence float64) float64 { return math.Sqrt2 * math.Erfinv(confidence) }

// studentPoint is the two-sided point of Student's t distribution with df
// degrees of freedom: 2.26 at 0.95 and 9. It is found by bisection over the
// distribution function, to 1e-12.
func studentPoint(confidence, df float64) float64 {
	if df <= 0 {
		return math.Inf(1)
	}
	lo, hi := 0.0, 2.0
	for studentWithin(hi, df) < confidence && hi < 1e12 {
		hi *= 2
	}
	for hi-lo > 1e-12*hi {
		if mid := (lo + hi) / 2; studentWithin(mid, df) < confidence {
			lo = mid
		} else {
			hi = mid
		}
	}
	return (lo + hi) / 2
}

// studentWithin is the probability that |T| <= t.
func studentWithin(t, df float64) float64 {
	return 1 - betaRegular(df/(df+t*t), df/2, 0.5)
}

// betaRegular is the regularised incomplete beta function I_x(a, b), by the
// continued fraction of DLMF 8.17.22 in Lentz's form.
func betaRegular(x, a, b float64) float64 {
	switch {
	case x <= 0:
		return 0
	case x >= 1:
		return 1
	case x > (a+1)/(a+b+2):
		return 1 - betaRegular(1-x, b, a)
	}
	la, _ := math.Lgamma(a)
	lb, _ := math.Lgamma(b)
	lab, _ := math.Lgamma(a + b)
	front := math.Exp(lab - la - lb + a*math.Log(x) + b*math.Log1p(-x))
	const tiny = 1e-300
	f, c, d := 1.0, 1.0, 0.0
	for i := range 1000 {
		m := float64(i / 2)
		var num float64
		switch {
		case i == 0:
			num = 1
		case i%2 == 0:
			num = m * (b - m) * x / ((a + 2*m - 1) * (a + 2*m))
		default:
			num = -(a + m) * (a + b + m) * x / ((a + 2*m) * (a + 2*m + 1))
		}
		if d = 1 + num*d; math.Abs(d) < tiny {
			d = tiny
		}
		d = 1 / d
		if c = 1 + num/c; math.Abs(c) < tiny {
			c = tiny
		}
		f *= c * d
		if math.Abs(1-c*d) < 1e-15 {
			break
		}
	}
	return front * (f - 1) / a
}

// logChoose is the logarithm of n over k.
func logChoose(n, k float64) float64 {
	a, _ := math.Lgamma(n + 1)
	b, _ := math.Lgamma(k + 1)
	c, _ := math.Lgamma(n - k + 1)
	return a - b - c
}

// PassAtK is the probability that at least one of k samples passes, estimated
// without bias from n samples of which c passed: 1 - C(n-c, k)/C(n, k). Chen et
// al., Evaluating large language models trained on code, 2021, equation 1. It
// is NaN where k > n or k < 1.
func PassAtK(n, c, k int) float64 {
	if k < 1 || k > n || c < 0 || c > n {
		return math.NaN()
	}
	if n-c < k {
		return 1
	}
	none := 1.0
	for i := n - c + 1; i <= n; i++ {
		none *= 1 - float64(k)/float64(i)
	}
	return 1 - none
}

// Mean is the arithmetic mean; NaN over nothing.
func Mean(values []float64) float64 {
	if len(values) == 0 {
		return math.NaN()
	}
	// Summed about the first value: the values of a rate are near each other.
	var sum float64
	for _, v := range values {
		sum += v - values[0]
	}
	return values[0] + sum/float64(len(values))
}

// Variance is the sample variance, with n-1 in the denominator; NaN over fewer
// than two values.
func Variance(values []float64) float64 {
	if len(values) < 2 {
		return math.NaN()
	}
	mean := Mean(values)
	var sum float64
	for _, v := range values {
		sum += (v - mean) * (v - mean)
	}
	return sum / float64(len(values)-1)
}

// StandardError is that of the mean, with n-1 in the denominator; NaN over
// fewer than two values.
func StandardError(values []float64) float64 {
	return math.Sqrt(Variance(values) / float64(len(values)))
}
