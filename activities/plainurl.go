package activities

import "net/url"

// plainURL is an address without what may be secret in it: user, password and
// query.
func plainURL(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		return ""
	}
	u.User, u.RawQuery, u.Fragment = nil, "", ""
	return u.String()
}
