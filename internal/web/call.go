package web

import (
	"bytes"
	"io"
	"maps"
	"net/http"

	"github.com/bulkhead-mail/bulkhead/client/admin"
)

// client returns a client of the node's own API that acts for the browser that sent r, with its
// address, its session and the header fields of proxies. So the API alone decides what a page may
// show and do.
func (s *Site) client(r *http.Request) *admin.Client {
	c := admin.New("http://"+r.Host, "")
	c.HTTP = &http.Client{Transport: inside{s.api, r}}
	return c
}

// inside is a transport without a network: it passes requests to a handler as if they came from the
// browser that sent the request from.
type inside struct {
	api  http.Handler
	from *http.Request
}

// RoundTrip implements [http.RoundTripper].
func (t inside) RoundTrip(r *http.Request) (*http.Response, error) {
	in := r.Clone(r.Context())
	in.Proto, in.ProtoMajor, in.ProtoMinor = t.from.Proto, t.from.ProtoMajor, t.from.ProtoMinor
	in.RemoteAddr, in.Host, in.TLS, in.RequestURI = t.from.RemoteAddr, t.from.Host, t.from.TLS, r.URL.RequestURI()
	in.Header = t.from.Header.Clone()
	for _, of := range []string{"Content-Type", "Content-Length", "Content-Encoding", "Accept-Encoding", "Range"} {
		in.Header.Del(of)
	}
	maps.Copy(in.Header, r.Header)
	if in.Body == nil {
		in.Body = http.NoBody
	}
	w := &recorder{header: make(http.Header), status: http.StatusOK}
	t.api.ServeHTTP(w, in)
	return &http.Response{
		Status: http.StatusText(w.status), StatusCode: w.status, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: w.header, Body: io.NopCloser(&w.body), ContentLength: int64(w.body.Len()), Request: r,
	}, nil
}

// A recorder stores the answer to one request.
type recorder struct {
	header http.Header
	status int
	wrote  bool
	body   bytes.Buffer
}

func (w *recorder) Header() http.Header { return w.header }

func (w *recorder) WriteHeader(status int) {
	if !w.wrote {
		w.status, w.wrote = status, true
	}
}

func (w *recorder) Write(p []byte) (int, error) {
	w.wrote = true
	return w.body.Write(p)
}
