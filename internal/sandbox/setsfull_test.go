//go:build integration

package sandbox

const stride = 1
