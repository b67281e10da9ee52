//go:build unix

package api

import (
	"bytes"
	"context"
	"crypto/sha1"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"syscall"
	"testing"
	"time"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/client"
)

// A constant is a house with one verdict for all messages of as many signatures.
type constant map[int]bulkhead.Verdict

func (h constant) Check(_ context.Context, q bulkhead.Query) (bulkhead.Verdict, error) {
	v := h[len(q.Signatures)]
	if q.Terse {
		v.Reasons = nil
	}
	return v, nil
}

func (h constant) Report(context.Context, bulkhead.Report) (bulkhead.Receipt, error) {
	return bulkhead.Receipt{Counted: 1}, nil
}

// checkOfSize returns a check of n signatures, and the verdict on it.
func checkOfSize(n int) (client.Check, bulkhead.Verdict) {
	first := time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)
	v := bulkhead.Verdict{Class: bulkhead.ClassBulk, Bulk: true, Threshold: 20, Sightings: 120, First: first, Rule: "bulk",
		Error: 1.2e-7, Reasons: []string{"seen 120 times, threshold 20"}}
	var c client.Check
	for i := range n {
		sum := sha1.Sum([]byte{byte(i)})
		sig := bulkhead.MustSignature(bulkhead.PyzorDigest, sum[:])
		c.Signatures = append(c.Signatures, sig)
		v.Findings = append(v.Findings, bulkhead.Finding{Signature: sig, Sightings: 120, Bulk: true, First: first,
			Last: first, Error: 1.2e-7})
	}
	return c, v
}

// stub answers checks with the same library and without anything else: no rights, limits, validation
// and metrics.
func stub(h constant) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var c client.Check
		if err := json.NewDecoder(r.Body).Decode(&c); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		v, _ := h.Check(r.Context(), bulkhead.Query{Signatures: c.Signatures})
		w.Header().Set("Content-Type", requestType)
		json.NewEncoder(w).Encode(client.NewVerdict(&v))
	})
}

// BenchmarkServed compares the processor time of a check over a connection with a stub, the client
// included.
func BenchmarkServed(b *testing.B) {
	house := constant{}
	api := newServer(b, house, nil)
	for _, h2 := range []bool{false, true} {
		for _, n := range []int{1, 21} {
			c, v := checkOfSize(n)
			house[n] = v
			body, err := json.Marshal(c)
			if err != nil {
				b.Fatal(err)
			}
			for name, handler := range map[string]http.Handler{"stub": stub(house), "api": api} {
				b.Run(fmt.Sprintf("h2=%t/n=%d/%s", h2, n, name), func(b *testing.B) { serveMany(b, handler, h2, body, 1) })
			}
		}
	}
}

// BenchmarkBatch measures a message in a batch of 256 messages.
func BenchmarkBatch(b *testing.B) {
	house := constant{}
	api := newServer(b, house, nil)
	for _, n := range []int{1, 3, 21} {
		c, v := checkOfSize(n)
		house[n] = v
		for _, c.Brief = range []bool{false, true} {
			batch := make([]client.Check, 256)
			for i := range batch {
				batch[i] = c
			}
			body, err := json.Marshal(batch)
			if err != nil {
				b.Fatal(err)
			}
			b.Run(fmt.Sprintf("n=%d/brief=%t", n, c.Brief), func(b *testing.B) { serveMany(b, api, false, body, len(batch)) })
		}
	}
}

// serveMany sends one body many times over one connection, and reports the processor time for each of
// its messages.
func serveMany(b *testing.B, h http.Handler, h2 bool, body []byte, messages int) {
	protocols := new(http.Protocols)
	protocols.SetHTTP1(!h2)
	protocols.SetUnencryptedHTTP2(h2)
	srv := httptest.NewUnstartedServer(h)
	srv.Config.Protocols = protocols
	srv.Start()
	defer srv.Close()
	hc := &http.Client{Transport: &http.Transport{Protocols: protocols}}
	defer hc.CloseIdleConnections()
	start := processor(b)
	b.ReportAllocs()
	for b.Loop() {
		resp, err := hc.Post(srv.URL+"/v1/check", requestType, bytes.NewReader(body))
		if err != nil {
			b.Fatal(err)
		}
		if _, err = io.Copy(io.Discard, resp.Body); err != nil || resp.StatusCode != http.StatusOK {
			b.Fatal(resp.Status, err)
		}
		resp.Body.Close()
	}
	b.ReportMetric(float64(processor(b)-start)/float64(b.N*messages), "cpu-ns/message")
}

// processor returns the processor time that this process has taken.
func processor(b *testing.B) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
