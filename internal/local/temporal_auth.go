//go:build !noembed

package local

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/subtle"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"
	"math/big"
	"time"

	"go.temporal.io/server/common/authorization"
	"go.temporal.io/server/common/rpc/encryption"
)

// gate is the authorizer and claim mapper of the frontend: whoever sends the
// home's token may do everything, nobody else may do anything. The server's
// own workers come in through the internal frontend, which names them admin
// and which only holders of this process's certificate can reach.
type gate struct {
	token string
}

const bearer = "Bearer "

func (g *gate) GetClaims(info *authorization.AuthInfo) (*authorization.Claims, error) {
	want := bearer + g.token
	if subtle.ConstantTimeCompare([]byte(info.AuthToken), []byte(want)) != 1 {
		return nil, nil
	}
	return &authorization.Claims{System: authorization.RoleAdmin, AuthType: "token", Subject: "owner"}, nil
}

func (g *gate) Authorize(_ context.Context, claims *authorization.Claims, _ *authorization.CallTarget) (authorization.Result, error) {
	if claims == nil || claims.System != authorization.RoleAdmin {
		return authorization.Result{
			Decision: authorization.DecisionDeny,
			Reason:   "this Temporal server needs the token of its home; print it with: stillhouse env",
		}, nil
	}
	return authorization.Result{Decision: authorization.DecisionAllow}, nil
}

// internodeTLS keeps the ports between the server's own services to this
// process: both sides show one certificate that is made at the start and never
// leaves memory. The frontend itself speaks plainly and asks for the token.
type internodeTLS struct {
	server, client *tls.Config
}

// certificateLife outlives any run of the services.
const certificateLife = 10 * 365 * 24 * time.Hour

func newInternodeTLS() (*internodeTLS, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("make the services' certificate: %w", err)
	}
	const name = "stillhouse.internal"
	template := &x509.Certificate{
		SerialNumber:          big.NewInt(1),
		Subject:               pkix.Name{CommonName: name},
		DNSNames:              []string{name},
		NotBefore:             time.Now().Add(-time.Hour),
		NotAfter:              time.Now().Add(certificateLife),
		IsCA:                  true,
		BasicConstraintsValid: true,
		KeyUsage:              x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		ExtKeyUsage:           []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, fmt.Errorf("make the services' certificate: %w", err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, fmt.Errorf("make the services' certificate: %w", err)
	}
	pool := x509.NewCertPool()
	pool.AddCert(cert)
	own := tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key, Leaf: cert}
	return &internodeTLS{
		server: &tls.Config{
			MinVersion:   tls.VersionTLS13,
			Certificates: []tls.Certificate{own},
			ClientAuth:   tls.RequireAndVerifyClientCert,
			ClientCAs:    pool,
		},
		client: &tls.Config{
			MinVersion:   tls.VersionTLS13,
			Certificates: []tls.Certificate{own},
			RootCAs:      pool,
			ServerName:   name,
		},
	}, nil
}

func (t *internodeTLS) GetInternodeServerConfig() (*tls.Config, error) { return t.server.Clone(), nil }
func (t *internodeTLS) GetInternodeClientConfig() (*tls.Config, error) { return t.client.Clone(), nil }
func (t *internodeTLS) GetFrontendServerConfig() (*tls.Config, error)  { return nil, nil }
func (t *internodeTLS) GetFrontendClientConfig() (*tls.Config, error)  { return nil, nil }

func (t *internodeTLS) GetRemoteClusterClientConfig(string) (*tls.Config, error) { return nil, nil }

func (t *internodeTLS) GetExpiringCerts(time.Duration) (expiring, expired encryption.CertExpirationMap, err error) {
	return nil, nil, nil
}
