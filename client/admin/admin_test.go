package admin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/client"
)

// ask makes a call to a node that has one answer, and returns the requests that the node received:
// method, path, headers, body.
func ask(t *testing.T, call func(c *Client) error, status int, answer string) (requests []string, err error) {
	t.Helper()
	node := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			panic(err)
		}
		line := r.Method + " " + r.URL.RequestURI()
		for _, h := range []string{"Content-Type", "Authorization"} {
			if v, ok := r.Header[h]; ok {
				line += " [" + v[0] + "]"
			}
		}
		requests = append(requests, strings.TrimSpace(line+" "+string(body)))
		if status != http.StatusOK {
			w.Header().Set("Content-Type", "application/problem+json")
		}
		w.WriteHeader(status)
		fmt.Fprint(w, answer)
	}))
	defer node.Close()
	return requests, call(New(node.URL+"/", "secret"))
}

// TestRequests checks that each call sends the request that the node's API document describes, and
// returns the refusals of the node.
func TestRequests(t *testing.T) {
	ctx := context.Background()
	when := time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)
	sig := bulkhead.MustSignature(bulkhead.PyzorDigest, make([]byte, 20))
	weight := 0.5
	const auth = " [Bearer secret]"
	const jsons = " [application/json]" + auth
	for _, tt := range []struct {
		want string
		call func(c *Client) error
	}{
		{"GET /v1/node" + auth, func(c *Client) error { _, err := c.Node(ctx); return err }},
		{"GET /v1/size?signatures=5" + auth, func(c *Client) error {
			_, err := c.Size(ctx, SizeQuestion{Signatures: 5})
			return err
		}},
		{"GET /v1/size?blocklist_keep=4&count_error=0.01&list_error=1e-07&listed=0&signatures=5&tally_keep=3" + auth,
			func(c *Client) error {
				_, err := c.Size(ctx, SizeQuestion{Signatures: 5, Listed: new(uint64), CountError: 0.01, ListError: 1e-7,
					TallyKeep: 3, BlocklistKeep: 4})
				return err
			}},
		{"GET /v1/ratelimits" + auth, func(c *Client) error { _, err := c.RateLimits(ctx); return err }},
		{"POST /v1/ratelimits" + jsons + ` {"attributes":{"sender":"a"}}`, func(c *Client) error {
			_, err := c.ApplyRateLimits(ctx, map[string]string{"sender": "a"})
			return err
		}},
		{"GET /v1/ratelimits/keys?key=k+1&rule=r" + auth, func(c *Client) error {
			_, err := c.RateKeys(ctx, "r", "k 1")
			return err
		}},
		{"DELETE /v1/ratelimits/keys?key=k" + auth, func(c *Client) error {
			_, err := c.ResetRateKey(ctx, "", "k")
			return err
		}},
		{"GET /v1/lists" + auth, func(c *Client) error { _, err := c.Lists(ctx); return err }},
		{"GET /v1/lists/find?entry=example.com" + auth, func(c *Client) error {
			_, err := c.FindInLists(ctx, "example.com")
			return err
		}},
		{"GET /v1/config" + auth, func(c *Client) error { _, err := c.Config(ctx); return err }},
		{"POST /v1/config/check" + jsons + ` {"text":"[node]"}`, func(c *Client) error {
			_, err := c.CheckConfig(ctx, "[node]")
			return err
		}},
		{"POST /v1/config/reload" + auth, func(c *Client) error { _, err := c.ReloadConfig(ctx); return err }},
		{"GET /v1/ratelimits/top?limit=5" + auth, func(c *Client) error { _, err := c.TopRateKeys(ctx, 5); return err }},
		{"GET /v1/weights" + auth, func(c *Client) error { _, err := c.Weights(ctx); return err }},
		{"GET /v1/waves?class=spam&limit=3&sort=new" + auth, func(c *Client) error {
			_, err := c.Waves(ctx, WaveQuery{Class: "spam", Sort: "new", Limit: 3})
			return err
		}},
		{"GET /v1/waves/7" + auth, func(c *Client) error { _, err := c.Wave(ctx, 7); return err }},
		{"GET /v1/whitelist" + auth, func(c *Client) error { _, err := c.Whitelist(ctx); return err }},
		{"POST /v1/whitelist" + jsons + ` {"entry":7,"note":"ours"}`, func(c *Client) error {
			_, err := c.Clear(ctx, Clear{Entry: 7, Note: "ours"})
			return err
		}},
		{"DELETE /v1/whitelist?signature=" + url.QueryEscape(sig.String()) + auth, func(c *Client) error {
			return c.Unclear(ctx, sig)
		}},
		{"GET /v1/users" + auth, func(c *Client) error { _, err := c.Users(ctx); return err }},
		{"GET /v1/users/%2E%2E" + auth, func(c *Client) error { _, err := c.User(ctx, ".."); return err }},
		{"GET /v1/users/%2E" + auth, func(c *Client) error { _, err := c.User(ctx, "."); return err }},
		{"GET /v1/users/a%2Fb" + auth, func(c *Client) error { _, err := c.User(ctx, "a/b"); return err }},
		{"POST /v1/users" + jsons + ` {"name":"ann"}`, func(c *Client) error {
			_, err := c.AddUser(ctx, NewUser{Name: "ann"})
			return err
		}},
		{"PATCH /v1/users/ann" + jsons + ` {"weight":0.5}`, func(c *Client) error {
			_, err := c.ChangeUser(ctx, "ann", UserChange{Weight: &weight})
			return err
		}},
		{"DELETE /v1/users/ann" + auth, func(c *Client) error { return c.RemoveUser(ctx, "ann") }},
		{"POST /v1/users/ann/token" + auth, func(c *Client) error { _, err := c.NewToken(ctx, "ann"); return err }},
		{"POST /v1/users/ann/undo" + jsons + ` {"since":"2026-03-04T05:06:07Z"}`, func(c *Client) error {
			_, err := c.UndoVotes(ctx, "ann", when)
			return err
		}},
		{"PUT /v1/users/ann/secrets/razor" + jsons + ` {"secret":"s"}`, func(c *Client) error {
			return c.SetSecret(ctx, "ann", "razor", "s")
		}},
		{"GET /v1/network" + auth, func(c *Client) error { _, err := c.Network(ctx); return err }},
		{"GET /v1/peers" + auth, func(c *Client) error { _, err := c.Peers(ctx); return err }},
		{"PATCH /v1/peers/UKEY" + jsons + ` {"weight":0.5}`, func(c *Client) error {
			_, err := c.WeighPeer(ctx, "UKEY", 0.5)
			return err
		}},
		{"DELETE /v1/peers/UKEY" + auth, func(c *Client) error { return c.EvictPeer(ctx, "UKEY") }},
		{"POST /v1/peers/UKEY/rollback" + jsons + ` {"since":"2026-03-04T05:06:07Z"}`, func(c *Client) error {
			_, err := c.RollbackPeer(ctx, "UKEY", when)
			return err
		}},
	} {
		asked, err := ask(t, tt.call, http.StatusOK, "null")
		if err != nil || len(asked) != 1 || asked[0] != tt.want {
			t.Errorf("sent %q, %v; want %q", asked, err, tt.want)
		}
		for status, want := range map[int]error{403: bulkhead.ErrForbidden, 500: nil} {
			var p *client.Problem
			_, err := ask(t, tt.call, status, fmt.Sprintf(`{"title":"No","status":%d}`, status))
			if !errors.As(err, &p) || p.Status != status || want != nil && !errors.Is(err, want) {
				t.Errorf("%s: refused with %d: %v", tt.want, status, err)
			}
		}
	}
}

// TestForeignAnswer checks that no result comes with an error.
func TestForeignAnswer(t *testing.T) {
	for _, answer := range []string{"", "<html>", `{"name":1}`} {
		_, err := ask(t, func(c *Client) error {
			u, err := c.User(t.Context(), "ann")
			if u != nil {
				t.Errorf("%q is taken for %+v", answer, u)
			}
			return err
		}, http.StatusOK, answer)
		if err == nil {
			t.Errorf("%q: no error", answer)
		}
	}
}

// TestAttributesTwice checks that the second attributes count if they are given twice.
func TestAttributesTwice(t *testing.T) {
	var in RateRequest
	text := `{"attributes":{"sender":"a","size":"1"},"Attributes":{"sender":"b"}}`
	if err := json.Unmarshal([]byte(text), &in); err != nil ||
		!reflect.DeepEqual(in.Attributes, Attributes{"sender": "b"}) {
		t.Errorf("%v, %v", in.Attributes, err)
	}
	if err := json.Unmarshal([]byte(`{"attributes":{"sender":1}}`), &in); err == nil {
		t.Error("a number is taken for an attribute")
	}
}
