package filter

import (
	"cmp"
	"regexp"
	"slices"
	"strings"
)

// A piiSpan is where a text holds something of a kind.
type piiSpan struct {
	kind     string
	from, to int
}

// piiSpans finds everything that may identify a person or open a door, in
// order and without overlaps: of two that overlap the earlier stays, then the
// longer. In a technical text, digits with dashes may be arithmetic, so that a
// phone number has to say that it is one.
func piiSpans(text string, technical bool) []piiSpan {
	var found []piiSpan
	add := func(kind string, from, to int) { found = append(found, piiSpan{kind, from, to}) }
	findKeys(text, add)
	findEmails(text, add)
	findNumbers(text, technical, add)
	findIPv6(text, add)
	slices.SortFunc(found, func(a, b piiSpan) int {
		return cmp.Or(cmp.Compare(a.from, b.from), cmp.Compare(b.to, a.to), cmp.Compare(slices.Index(piiKinds, a.kind), slices.Index(piiKinds, b.kind)))
	})
	out := found[:0]
	end := 0
	for _, s := range found {
		if s.from >= end {
			out = append(out, s)
			end = s.to
		}
	}
	return out
}

// keyPatterns are the forms of keys that their makers publish, so that
// scanners find them, each with texts of which it holds one.
var keyPatterns = []struct {
	holds   []string
	pattern *regexp.Regexp
}{
	{[]string{"sk-"}, regexp.MustCompile(`\bsk-(?:proj-|ant-(?:api\d\d-)?|or-v1-|svcacct-)?[A-Za-z0-9_-]{20,256}`)},
	{[]string{"AKIA"}, regexp.MustCompile(`\bAKIA[0-9A-Z]{16}\b`)},
	{[]string{"ASIA"}, regexp.MustCompile(`\bASIA[0-9A-Z]{16}\b`)},
	{[]string{"ghp_", "gho_", "ghu_", "ghs_", "ghr_"}, regexp.MustCompile(`\bgh[pousr]_[A-Za-z0-9]{36,255}\b`)},
	{[]string{"github_pat_"}, regexp.MustCompile(`\bgithub_pat_[A-Za-z0-9_]{40,255}\b`)},
	{[]string{"glpat-"}, regexp.MustCompile(`\bglpat-[A-Za-z0-9_-]{20,64}`)},
	{[]string{"xox"}, regexp.MustCompile(`\bxox[abeoprs]-[A-Za-z0-9-]{20,250}`)},
	{[]string{"AIza"}, regexp.MustCompile(`\bAIza[A-Za-z0-9_-]{35}`)},
	{[]string{"hf_"}, regexp.MustCompile(`\bhf_[A-Za-z0-9]{34}\b`)},
	{[]string{"npm_"}, regexp.MustCompile(`\bnpm_[A-Za-z0-9]{36}\b`)},
	{[]string{"SG."}, regexp.MustCompile(`\bSG\.[A-Za-z0-9_-]{22}\.[A-Za-z0-9_-]{43}`)},
	{[]string{"_live_"}, regexp.MustCompile(`\b[rsp]k_live_[A-Za-z0-9]{20,250}\b`)},
	{[]string{"PRIVATE KEY"}, regexp.MustCompile(`-----BEGIN (?:[A-Z]{2,10} )?PRIVATE KEY-----[A-Za-z0-9+/=\\rn\s:,-]{40,}?(?:-----END (?:[A-Z]{2,10} )?PRIVATE KEY-----|$)`)},
}

func findKeys(text string, add func(kind string, from, to int)) {
	findTokens(text, func(from, to int) {
		if !placeholder(text[from:to]) {
			add(piiKey, from, to)
		}
	})
	for _, k := range keyPatterns {
		if !containsAny(text, k.holds) {
			continue
		}
		for _, at := range k.pattern.FindAllStringIndex(text, -1) {
			if !placeholder(text[at[0]:at[1]]) {
				add(piiKey, at[0], at[1])
			}
		}
	}
}

// placeholder tells whether a key is one that nobody has: of few characters, or
// with words that say so.
func placeholder(key string) bool {
	lower := strings.ToLower(key)
	if containsAny(lower, []string{"example", "xxxx", "your", "placeholder", "1234567890", "abcdefgh", "dummy", "redacted", "...", "****"}) {
		return true
	}
	var seen [256]bool
	different := 0
	for i := 0; i < len(key); i++ {
		if !seen[key[i]] {
			seen[key[i]] = true
			different++
		}
	}
	return different < 10
}

// findEmails finds addresses of the form local@domain.tld.
func findEmails(text string, add func(kind string, from, to int)) {
	for at := 0; ; {
		i := strings.IndexByte(text[at:], '@')
		if i < 0 {
			return
		}
		i += at
		from, to := i, i+1
		for from > 0 && i-from < 64 && isLocal(text[from-1]) {
			from--
		}
		for from < i && (text[from] == '.' || text[from] == '-' || text[from] == '+') {
			from++
		}
		for to < len(text) && to-i < 254 && (isWord(text[to]) || text[to] == '-' || text[to] == '.') {
			to++
		}
		for to > i+1 && (text[to-1] == '.' || text[to-1] == '-') {
			to--
		}
		local, domain := text[from:i], strings.ToLower(text[i+1:to])
		if realEmail(text, from, local, domain) {
			add(piiEmail, from, to)
		}
		at = max(to, i+1)
	}
}

func isWord(c byte) bool { return c|0x20 >= 'a' && c|0x20 <= 'z' || isDigit(c) }

func isDigit(c byte) bool { return c >= '0' && c <= '9' }

func isLocal(c byte) bool { return isWord(c) || strings.IndexByte("._%+-", c) >= 0 }

// Domains that RFC 2606 keeps for examples, and those that people write for
// "some address".
var exampleDomains = []string{
	"example.com", "example.org", "example.net", "example.edu", "email.com", "domain.com", "company.com", "yourcompany.com", "yourdomain.com", "mydomain.com", "mycompany.com", "website.com", "yourwebsite.com", "test.com", "abc.com", "xyz.com", "mail.com", "yourmail.com", "youremail.com", "school.edu", "university.edu", "provider.com", "server.com", "host.com", "hostname.com", "business.com", "organization.org",
}

var exampleEndings = []string{".example", ".test", ".invalid", ".localhost", ".local", ".example.com", ".example.org", ".example.net"}

func realEmail(text string, from int, local, domain string) bool {
	if local == "" || from > 0 && text[from-1] == '/' || strings.Contains(domain, "..") {
		return false // a handle, or the user of an address
	}
	dot := strings.LastIndexByte(domain, '.')
	if dot <= 0 || len(domain)-dot < 3 {
		return false
	}
	for i := dot + 1; i < len(domain); i++ {
		if isDigit(domain[i]) || domain[i] == '-' {
			return false // a version, such as react@18.2.0
		}
	}
	switch domain[dot+1:] {
	case "js", "py", "go", "ts", "png", "jpg", "jpeg", "svg", "gif", "webp", "json", "html", "css": // files such as logo@2x.png
		return false
	}
	if slices.Contains(exampleDomains, domain) || slices.ContainsFunc(exampleEndings, func(e string) bool { return strings.HasSuffix(domain, e) }) {
		return false
	}
	lower := strings.ToLower(local)
	return !(lower == "git" || strings.HasPrefix(lower, "your") || strings.Contains(lower, "example") || strings.HasPrefix(lower, "noreply") || strings.HasPrefix(lower, "no-reply"))
}

// findNumbers finds payment cards, phone numbers and IPv4 addresses: what
// begins with a digit, a plus sign or a parenthesis.
func findNumbers(text string, technical bool, add func(kind string, from, to int)) {
	for i := 0; i < len(text); {
		c := text[i]
		if !isDigit(c) && c != '+' && c != '(' || isDigit(c) && i > 0 && joins(text[i-1]) {
			i++
			if isDigit(c) { // the rest of a longer number or word
				for i < len(text) && (isWord(text[i]) || text[i] == '.' || text[i] == '_') {
					i++
				}
			}
			continue
		}
		if to := ipv4(text, i); to > 0 {
			add(piiIP, i, to)
			i = to
			continue
		}
		digits, ends := digitsAt(text, i)
		to := ends[len(ends)-1].at
		switch end := cardAt(text, i, digits, ends); {
		case end > 0:
			to = end
			add(piiCard, i, to)
		case isPhone(text, i, to, digits, technical):
			add(piiPhone, i, to)
		default:
			// What is one number stays one: none of its parts is looked at.
			to = i + 1
			for isDigit(c) && to < len(text) && (isDigit(text[to]) || text[to] == '.' || text[to] == ',') {
				to++
			}
		}
		i = max(to, i+1)
	}
}

// joins tells whether a number that follows is part of something longer.
func joins(c byte) bool {
	return isWord(c) || c >= 0x80 || strings.IndexByte("._/#$=*^", c) >= 0
}

// mostDigits bounds what is read as one number.
const mostDigits = 20

// A groupEnd is where a group of digits ends, and how many digits there are up
// to it.
type groupEnd struct{ at, digits int }

// digitsAt reads digits with the separators of card and phone numbers, one
// between two groups, and gives them with the ends of the groups.
func digitsAt(text string, from int) (digits string, ends []groupEnd) {
	var b [mostDigits]byte
	n := 0
	ends = append(make([]groupEnd, 0, mostDigits+1), groupEnd{from, 0})
	for i := from; i < len(text); {
		c := text[i]
		switch {
		case isDigit(c):
			if n == mostDigits {
				return string(b[:n]), ends
			}
			b[n] = c
			n++
			if i > 0 && i > from && isDigit(text[i-1]) {
				ends = ends[:len(ends)-1]
			}
			i++
			ends = append(ends, groupEnd{i, n})
		case c == '+' && i == from, c == '(' && (i == from || text[i-1] == ' ' || text[i-1] == '+' || isDigit(text[i-1])):
			i++
		case (c == ')' || c == ' ' || c == '-' || c == '.') && n > 0:
			i++
			if c == ')' && i < len(text) && (text[i] == ' ' || text[i] == '-') {
				i++
			}
			if i >= len(text) || !isDigit(text[i]) && text[i] != '(' {
				return string(b[:n]), ends
			}
		default:
			return string(b[:n]), ends
		}
	}
	return string(b[:n]), ends
}

// cardAt is the end of the payment card's number that begins at from, 0 for
// none: one may stand before other numbers.
func cardAt(text string, from int, digits string, ends []groupEnd) int {
	for _, end := range ends {
		if end.digits >= 13 && isCard(text, from, end.at, digits[:end.digits]) {
			return end.at
		}
	}
	return 0
}

// isCard tells whether a number is that of a payment card: its length and
// prefix are those of an issuer, its check digit is right (ISO/IEC 7812, Luhn),
// and it is grouped as cards are or not at all.
func isCard(text string, from, to int, digits string) bool {
	n := len(digits)
	if n < 13 || n > 19 || !isDigit(text[from]) || to < len(text) && (isWord(text[to]) || text[to] >= 0x80) {
		return false
	}
	if to+1 < len(text) && text[to] == '.' && isDigit(text[to+1]) || to < len(text) && strings.IndexByte("^*=/", text[to]) >= 0 {
		return false
	}
	issuer := false
	for _, p := range [...]struct {
		prefix string
		length int
	}{{"4", 16}, {"4", 13}, {"51", 16}, {"52", 16}, {"53", 16}, {"54", 16}, {"55", 16}, {"222", 16}, {"223", 16}, {"23", 16}, {"24", 16}, {"25", 16}, {"26", 16}, {"270", 16}, {"271", 16}, {"34", 15}, {"37", 15}, {"6011", 16}, {"65", 16}, {"35", 16}, {"36", 14}, {"30", 14}, {"38", 14}, {"62", 16}} {
		issuer = issuer || n == p.length && strings.HasPrefix(digits, p.prefix)
	}
	if !issuer || !luhn(digits) || !grouped(text[from:to]) {
		return false
	}
	// The numbers that payment providers publish for tests.
	return !slices.Contains([]string{"4111111111111111", "4242424242424242", "4012888888881881", "5555555555554444", "5105105105105100", "378282246310005", "371449635398431", "6011111111111117", "6011000990139424", "30569309025904", "38520000023237", "3530111333300000", "3566002020360505", "4222222222222"}, digits)
}

// luhn tells whether the last digit is the check digit of the others.
func luhn(digits string) bool {
	sum := 0
	for i := 0; i < len(digits); i++ {
		d := int(digits[len(digits)-1-i] - '0')
		if i%2 == 1 {
			if d *= 2; d > 9 {
				d -= 9
			}
		}
		sum += d
	}
	return sum%10 == 0
}

// grouped tells whether a number has no separators, or the same ones between
// groups of four to six digits.
func grouped(number string) bool {
	if !strings.ContainsAny(number, " -.()") {
		return true
	}
	by := " "
	if strings.Contains(number, "-") {
		by = "-"
	}
	if strings.ContainsAny(strings.ReplaceAll(number, by, ""), " -.()") {
		return false
	}
	for i, g := range strings.Split(number, by) {
		if len(g) < 4 && i < 3 || len(g) > 6 || len(g) == 0 {
			return false
		}
	}
	return true
}

// phoneWords stand before a phone number where it is one.
var phoneWords = []string{"phone", "tel", "call", "mobile", "cell", "fax", "whatsapp", "contact", "number:", "dial", "sms", "text", "电话", "電話", "手机", "전화", "telefon", "teléfono", "telefone", "téléphone", "телефон"}

// isPhone tells whether a number is a phone number: of the international form
// with a plus sign, or of North America's with its separators. Numbers that are
// kept for fiction (555-0100 to 555-0199) and series such as 123-456-7890 are
// none.
func isPhone(text string, from, to int, digits string, technical bool) bool {
	number := text[from:to]
	n := len(digits)
	if n < 9 || to < len(text) && (isWord(text[to]) || strings.IndexByte("+*/=^%", text[to]) >= 0) {
		return false
	}
	if from > 0 && strings.IndexByte("-*/=^$%", text[from-1]) >= 0 {
		return false
	}
	switch {
	case number[0] == '+':
		if n < 9 || n > 15 || digits[0] == '0' || !strings.ContainsAny(number[1:], " -.()") && n < 10 {
			return false
		}
		if from > 0 && (isWord(text[from-1]) || text[from-1] == ')') {
			return false // a sum
		}
		if n == 11 && digits[0] == '1' {
			return realNorthAmerican(digits[1:])
		}
		return !fictional(digits)
	case n == 10 && northAmericanForm(number), n == 11 && digits[0] == '1' && len(number) > 2 && strings.IndexByte("-. (", number[1]) >= 0 && northAmericanForm(strings.TrimLeft(number[1:], "-. ")):
		if technical && number[0] != '(' && !containsAny(strings.ToLower(text[max(0, from-40):from]), phoneWords) {
			return false
		}
		return realNorthAmerican(digits[n-10:])
	case n >= 9 && n <= 12 && digits[0] == '0' && strings.ContainsAny(number, " -"):
		// A national number, which many other things look like.
		return containsAny(strings.ToLower(text[max(0, from-24):from]), phoneWords) && !fictional(digits)
	}
	return false
}

// northAmericanForm tells whether ten digits are written ddd-ddd-dddd, with
// dashes, dots or spaces, or (ddd) ddd-dddd.
func northAmericanForm(number string) bool {
	if rest, ok := strings.CutPrefix(number, "("); ok {
		return len(rest) >= 12 && rest[3] == ')' && isDigit(rest[2]) && len(rest)-5 >= 0
	}
	return len(number) == 12 && number[3] == number[7] && strings.IndexByte("-. ", number[3]) >= 0 && isDigit(number[2]) && isDigit(number[4]) && isDigit(number[6]) && isDigit(number[8])
}

func realNorthAmerican(d string) bool {
	area, exchange := d[:3], d[3:6]
	return area[0] >= '2' && exchange[0] >= '2' && area != "555" && exchange != "555" && area[1:] != "11" && exchange[1:] != "11" && !fictional(d)
}

// fictional tells whether a number is a series or hardly has two different digits.
func fictional(digits string) bool {
	if strings.Contains("01234567890123456789", digits[max(0, len(digits)-7):]) || strings.Contains("98765432109876543210", digits[max(0, len(digits)-7):]) || strings.Contains(digits, "1234567") {
		return true
	}
	var seen [10]bool
	different := 0
	for i := 0; i < len(digits); i++ {
		if d := digits[i] - '0'; !seen[d] {
			seen[d] = true
			different++
		}
	}
	return different < 4
}

// ipv4 is the end of the public IPv4 address that begins at from, 0 for none.
func ipv4(text string, from int) int {
	var octets [4]int
	i := from
	for k := range octets {
		if k > 0 {
			if i >= len(text) || text[i] != '.' {
				return 0
			}
			i++
		}
		begin := i
		for i < len(text) && isDigit(text[i]) && i-begin < 3 {
			octets[k] = 10*octets[k] + int(text[i]-'0')
			i++
		}
		if i == begin || octets[k] > 255 || i-begin > 1 && text[begin] == '0' {
			return 0
		}
	}
	if i < len(text) && (isWord(text[i]) || text[i] == '_' || text[i] == '.' && i+1 < len(text) && isDigit(text[i+1])) {
		return 0
	}
	if !publicIPv4(octets) || containsAny(strings.ToLower(text[max(0, from-16):from]), []string{"version", "ver.", " v", "release", "section", "§"}) {
		return 0
	}
	return i
}

// publicIPv4 tells whether an address is somebody's: not one that the IANA's
// registry of special-purpose addresses sets aside, none of the resolvers that
// everybody names, and no number of a section (all parts below 20).
func publicIPv4(o [4]int) bool {
	switch {
	case o[0] == 0, o[0] == 10, o[0] == 127, o[0] >= 224,
		o[0] == 100 && o[1] >= 64 && o[1] < 128,
		o[0] == 169 && o[1] == 254,
		o[0] == 172 && o[1] >= 16 && o[1] < 32,
		o[0] == 192 && o[1] == 168,
		o[0] == 192 && o[1] == 0 && (o[2] == 0 || o[2] == 2),
		o[0] == 198 && (o[1] == 18 || o[1] == 19),
		o[0] == 198 && o[1] == 51 && o[2] == 100,
		o[0] == 203 && o[1] == 0 && o[2] == 113:
		return false
	case o == [4]int{8, 8, 8, 8}, o == [4]int{8, 8, 4, 4}, o == [4]int{1, 1, 1, 1}, o == [4]int{1, 0, 0, 1}, o == [4]int{9, 9, 9, 9}, o == [4]int{1, 2, 3, 4}, o == [4]int{208, 67, 222, 222}, o == [4]int{208, 67, 220, 220}:
		return false
	}
	return o[0] >= 20 || o[1] >= 20 || o[2] >= 20 || o[3] >= 20
}

// findIPv6 finds public IPv6 addresses: of 2000::/3, but for those that are set
// aside for documentation and those of the resolvers that everybody names.
func findIPv6(text string, add func(kind string, from, to int)) {
	for at := 0; ; {
		i := strings.IndexByte(text[at:], ':')
		if i < 0 {
			return
		}
		i += at
		from, to := i, i
		for from > at && i-from < 5 && isHexAny(text[from-1]) {
			from--
		}
		for to < len(text) && to-from < 40 && (isHexAny(text[to]) || text[to] == ':') {
			to++
		}
		if (from == 0 || !isWord(text[from-1]) && text[from-1] != ':' && text[from-1] != '.') && (to == len(text) || !isWord(text[to])) && publicIPv6(strings.TrimSuffix(text[from:to], ":")) {
			if text[to-1] == ':' {
				to--
			}
			add(piiIP, from, to)
		}
		at = max(to, i+1)
	}
}

func isHexAny(c byte) bool { return isDigit(c) || c|0x20 >= 'a' && c|0x20 <= 'f' }

func publicIPv6(s string) bool {
	groups := strings.Split(s, ":")
	short := strings.Count(s, "::")
	if short > 1 || strings.Contains(s, ":::") || short == 0 && len(groups) != 8 || len(groups) > 8 || len(groups) < 3 {
		return false
	}
	for _, g := range groups {
		if len(g) > 4 {
			return false
		}
	}
	lower := strings.ToLower(s)
	first := groups[0]
	documentation := first == "2001" && strings.TrimLeft(strings.ToLower(groups[1]), "0") == "db8"
	return len(first) == 4 && (first[0] == '2' || first[0] == '3') && !documentation && !strings.HasPrefix(lower, "2001:4860:4860:") && !strings.HasPrefix(lower, "2606:4700:4700:")
}
