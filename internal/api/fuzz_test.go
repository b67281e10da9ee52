package api

import (
	"bytes"
	"encoding/json"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/bulkhead-mail/bulkhead/internal/testing/prototest"
)

// FuzzRequest sends arbitrary bodies, types and queries: there must be no panic and no internal
// error, and every refusal must be a problem document that changed nothing.
func FuzzRequest(f *testing.F) {
	f.Add("/v1/check", requestType, "", []byte(ready))
	f.Add("/v1/report", requestType, "", []byte("["+ready+","+ready+"]"))
	f.Add("/v1/report", mailType, "vote=ham&count=3&client=192.0.2.1", []byte(sample))
	f.Add("/v1/revoke", requestType+"; charset=utf-8", "",
		[]byte(`{"signatures":["dcc/body:00"],"source":{"client":"::1%eth0","dkim":[null]}}`))
	f.Add("/v1/signatures", mailType, "a=%zz", []byte{0, 0xff})
	f.Add("/v1/check", requestType, "", []byte(`{"signatures":["dcc/body:00"],"threshold":1e400}`))
	one := ready[strings.IndexByte(ready, '[') : strings.IndexByte(ready, ']')+1]
	for _, field := range []string{`"vote":"ham","user":"ann@example.com"`, `"vote":"spam","trap":true`,
		`"vote":"ham","trap":true`, `"vote":"sighting","count":3,"recipients":["Ann@Example.com"]`,
		`"vote":"spam","recipients":["a"]`, `"vote":"sighting","recipients":[""]`, `"vote":"no-such"`,
		`"reporter":"192.0.2.7"`, `"reporter":"127.0.0.1"`, `"id":"x y"`, `"id":"once"`,
		`"source":{"client":"192.0.2.1","sender":"a@b.example","list_id":"l.b.example","dkim":["b.example"]}`} {
		f.Add("/v1/report", requestType, "", []byte(`{"signatures":`+one+","+field+`}`))
	}
	f.Add("/v1/report", requestType, "", []byte(`{"signatures":[]}`))
	f.Add("/v1/report", requestType, "", []byte(`{"signatures":[null]}`))
	f.Add("/v1/report", requestType, "", []byte(`[]`))
	f.Add("/v1/revoke", requestType, "", []byte(`{"signatures":`+one+`,"vote":"spam"}`))
	f.Add("/v1/report", requestType, "", []byte(ready+"x"))
	for _, query := range []string{"vote=sighting&rcpt=a@b.example&rcpt=c@d.example", "vote=spam&rcpt=a", "count=x",
		"client=here", "sender=a@b.example&list_id=l&dkim=b.example&dkim=c.example", "vote=ham&vote=spam", "unknown=1",
		"id=once&user=ann", "trap=true", "vote=ham&trap=true", "reporter=192.0.2.7"} {
		for _, path := range []string{"/v1/report", "/v1/check"} {
			f.Add(path, mailType, query, []byte(sample))
		}
	}
	f.Add("/v1/check", mailType, "", []byte{})
	f.Add("/v1/check", "text/plain", "", []byte(sample))
	f.Add("/v1/check", requestType, "", []byte("["+ready+",{}]"))
	house := &prototest.House{}
	s := newServer(f, house, nil)
	f.Fuzz(func(t *testing.T, path, mediaType, query string, body []byte) {
		switch path {
		case "/v1/check", "/v1/report", "/v1/revoke", "/v1/signatures":
		default:
			path = "/v1/report"
		}
		before := len(house.Reports())
		r := httptest.NewRequest("POST", path, bytes.NewReader(body))
		r.RemoteAddr, r.Host = local, "localhost"
		r.URL.RawQuery = query
		r.Header.Set("Content-Type", mediaType)
		w := httptest.NewRecorder()
		s.ServeHTTP(w, r)
		if w.Code >= 500 {
			t.Fatalf("POST %s?%s %q %q = %d %s", path, query, mediaType, body, w.Code, w.Body)
		}
		if !json.Valid(w.Body.Bytes()) {
			t.Errorf("answer is not JSON: %q", w.Body)
		}
		if w.Code != 200 && len(house.Reports()) != before {
			t.Errorf("POST %s?%s %q %q = %d, yet something was counted", path, query, mediaType, body, w.Code)
		}
	})
}
