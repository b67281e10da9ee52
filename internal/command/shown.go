package command

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"

	"github.com/bulkhead-mail/bulkhead/internal/cli"
)

// shown is a transport for commands that print for people. Strings in the answers of a node may come
// from mail, peers and accounts, so each becomes one line without tabs and control characters: it cannot
// look like another line or column of the output.
type shown struct{ next http.RoundTripper }

// RoundTrip implements [http.RoundTripper].
func (s shown) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := s.next.RoundTrip(r)
	if err != nil || resp.Header.Get("Content-Type") != "application/json" {
		return resp, err
	}
	body, err := io.ReadAll(resp.Body)
	resp.Body.Close()
	if err != nil {
		return nil, err
	}
	body = onOneLine(body)
	resp.Body, resp.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	resp.Header.Del("Content-Length")
	return resp, nil
}

// onOneLine makes every string of a JSON document visible on one line. Any other text stays as it is.
func onOneLine(doc []byte) []byte {
	d := json.NewDecoder(bytes.NewReader(doc))
	d.UseNumber()
	var value any
	if d.Decode(&value) != nil {
		return doc
	}
	out, err := json.Marshal(visible(value))
	if err != nil {
		return doc
	}
	return out
}

func visible(value any) any {
	switch v := value.(type) {
	case string:
		return cli.Visible(v)
	case []any:
		for i := range v {
			v[i] = visible(v[i])
		}
	case map[string]any:
		out := make(map[string]any, len(v))
		for name, of := range v {
			out[cli.Visible(name)] = visible(of)
		}
		return out
	}
	return value
}
