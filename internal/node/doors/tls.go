package doors

import (
	"crypto/tls"
	"sync/atomic"

	"github.com/bulkhead-mail/bulkhead/internal/config"
)

// A certificate is the HTTP door's certificate. It is read again on SIGHUP: the files are renewed
// every few weeks, and nodes run longer.
type certificate struct {
	pair atomic.Pointer[tls.Certificate]
}

// readCertificate reads the certificate of a configuration's HTTP door; nil if it has none.
func readCertificate(cfg *config.Config) (*tls.Certificate, error) {
	if cfg.HTTP.TLSCert == "" || cfg.Listen.HTTP == "" {
		return nil, nil
	}
	pair, err := tls.LoadX509KeyPair(cfg.HTTP.TLSCert, cfg.HTTP.TLSKey)
	if err != nil {
		return nil, &config.Error{Key: "http.tls_cert", Detail: err.Error()}
	}
	return &pair, nil
}

// config returns the TLS settings that present the current certificate.
func (c *certificate) config() *tls.Config {
	return &tls.Config{GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return c.pair.Load(), nil }}
}
