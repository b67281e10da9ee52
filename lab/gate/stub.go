package gate

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/bulkhead-mail/bulkhead/client"
	"github.com/bulkhead-mail/bulkhead/lab/load"
)

// ServeStub answers checks at address until ctx ends as the least server that this library allows: it
// decodes a check, and encodes a verdict on as many signatures of which nothing is known. It has no rights,
// limits, validation, metrics and arrays. It speaks TLS if cert is not empty.
func ServeStub(ctx context.Context, address, cert, key string) error {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /readyz", func(http.ResponseWriter, *http.Request) {})
	mux.HandleFunc("POST /v1/check", func(w http.ResponseWriter, r *http.Request) {
		var c client.Check
		if err := json.NewDecoder(r.Body).Decode(&c); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		v := client.Verdict{Judged: "none", Class: "unknown", Threshold: 20, Reasons: []string{},
			Findings: make([]client.Finding, len(c.Signatures))}
		for i, sig := range c.Signatures {
			v.Findings[i] = client.Finding{Signature: sig, Judged: "none"}
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(&v) // an error is the client's
	})
	server := &http.Server{Addr: address, Handler: mux, ReadHeaderTimeout: 10 * time.Second}
	stop := context.AfterFunc(ctx, func() { server.Close() })
	defer stop()
	serve := server.ListenAndServe
	if cert != "" {
		serve = func() error { return server.ListenAndServeTLS(cert, key) }
	}
	if err := serve(); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// Beside compares checks over HTTP at the build o.New with a stub in a process of its own, which the command
// stub starts with an address, a certificate and a key as further arguments: see [ServeStub]. It ignores o.Old.
func Beside(ctx context.Context, o Options, stub []string, out io.Writer) ([]Row, error) {
	if err := o.validate(); err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "bulkhead-gate-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	cert, key, err := certificate(dir)
	if err != nil {
		return nil, err
	}
	fmt.Fprintf(out, "%-22s %10s %10s  %s\n", "request", "stub", "node", "node/stub, 95 % confidence")
	plain, err := beside(ctx, o, stub, filepath.Join(dir, "1"), "", "", out)
	if err != nil {
		return plain, err
	}
	encrypted, err := beside(ctx, o, stub, filepath.Join(dir, "2"), cert, key, out)
	return append(plain, encrypted...), err
}

// beside compares over HTTP/2 if there is a certificate, else over HTTP/1.1.
func beside(ctx context.Context, o Options, stub []string, dir, cert, key string, out io.Writer) ([]Row, error) {
	least, err := launch(ctx, dir+"-stub", cert != "", func(n *node) (*exec.Cmd, error) {
		return exec.Command(stub[0], append(stub[1:len(stub):len(stub)], n.at(httpPort), cert, key)...), nil
	})
	if err != nil {
		return nil, err
	}
	defer least.stop()
	n, err := start(ctx, o.New, dir, cert, key)
	if err != nil {
		return nil, err
	}
	defer n.stop()
	var rows []Row
	version := "1.1"
	if cert != "" {
		version = "2"
	}
	for _, signatures := range []int{1, 21} {
		row, err := compare(ctx, benchmark{
			fmt.Sprintf("HTTP/%s, %d signatures", version, signatures),
			func(ctx context.Context, n *node, slice time.Duration) (time.Duration, error) {
				o := load.HTTP{Options: options(slice), Address: n.at(httpPort), Op: "check", Token: n.token,
					Known: known, Signatures: signatures, HTTP2: cert != ""}
				return perRequest(ctx, n, o.Options, o.Connect)
			},
		}, [2]*node{least, n}, o)
		if err != nil {
			return rows, err
		}
		rows = append(rows, row)
		fmt.Fprintln(out, &row)
	}
	return rows, nil
}

// certificate writes a self-signed certificate and its key to dir.
func certificate(dir string) (cert, key string, err error) {
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return "", "", err
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "gate"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour)}
	public, err := x509.CreateCertificate(rand.Reader, template, template, &private.PublicKey, private)
	if err != nil {
		return "", "", err
	}
	secret, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		return "", "", err
	}
	cert, key = filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	return cert, key, errors.Join(
		os.WriteFile(cert, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: public}), 0o600),
		os.WriteFile(key, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret}), 0o600))
}
