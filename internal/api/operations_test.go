package api

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/client"
	"github.com/bulkhead-mail/bulkhead/client/admin"
)

// A backstage stands for all parts of a node behind the API. It records the calls to them, of which one may fail.
type backstage struct {
	fakePeers
	fakeUsers *fakeUsers
	fakeMTA
	recorder
	calls  []string
	failAt int // the call that fails, the first is 1; 0: none
	acts   []admin.AuditEntry
	state  admin.NodeState
}

var errDisk = errors.New("disk gone")

func (b *backstage) call(format string, args ...any) error {
	b.calls = append(b.calls, strings.TrimSpace(fmt.Sprintf(format, args...)))
	if len(b.calls) == b.failAt {
		return errDisk
	}
	return nil
}

// moment is a time in seconds, "" for none.
func moment(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return fmt.Sprint(t.Unix())
}

func (b *backstage) State(context.Context) admin.NodeState { return b.state }
func (b *backstage) ConfirmClock(context.Context) error    { return b.call("confirm") }
func (b *backstage) BringBack(context.Context) (opened, expired int, err error) {
	return 3, 1, b.call("bring back")
}
func (b *backstage) Promote(context.Context) error { return b.call("promote") }
func (b *backstage) Learn(_ context.Context, who bulkhead.Reporter, sigs []bulkhead.Signature, features []string,
	spam bool) error {
	return b.call("learn %s %d %v %v", who.Account, len(sigs), features, spam)
}
func (b *backstage) Rules(days int) []admin.Rule {
	return []admin.Rule{{Name: fmt.Sprint("of ", days)}}
}

func (b *backstage) History(_ context.Context, q admin.HistoryQuery) (admin.HistoryPage, error) {
	return admin.HistoryPage{Read: 8}, b.call("history %s %s %s %s %s %s %s %s %s %s %s %s %d %d", moment(q.Since),
		moment(q.Until), q.Door, q.Kind, q.Class, q.Outcome, q.Reporter, q.Domain, q.From, q.Link, q.MessageID, q.Signature,
		q.Before, q.Limit)
}
func (b *backstage) HistoryEntry(_ context.Context, id int64) (admin.HistoryEntry, bool, error) {
	sigs := []bulkhead.Signature{bulkhead.MustSignature(bulkhead.DCCBody, []byte{7})}
	return admin.HistoryEntry{ID: id, Signatures: sigs}, id != 404, b.call("entry %d", id)
}
func (b *backstage) Explain(_ context.Context, id int64) (client.Verdict, bool, error) {
	return client.Verdict{Confidence: int(id)}, id != 404, b.call("explain %d", id)
}
func (b *backstage) Remembered(_ context.Context, who bulkhead.Reporter, messageID string,
	entry int64) ([]bulkhead.Signature, error) {
	switch err := b.call("remembered %s %s %s %d", who.Account, who.User, messageID, entry); {
	case err != nil:
		return nil, err
	case messageID == "unknown":
		return nil, fmt.Errorf("history: %w", ErrNotRemembered)
	case messageID == "white":
		return nil, fmt.Errorf("history: %w", ErrWhite)
	}
	return []bulkhead.Signature{bulkhead.MustSignature(bulkhead.DCCBody, []byte{7})}, nil
}
func (b *backstage) Waves(_ context.Context, q admin.WaveQuery) (admin.WavePage, error) {
	return admin.WavePage{Of: 8}, b.call("waves %s %s %v %d", q.Class, q.Sort, q.Posts, q.Limit)
}
func (b *backstage) Wave(_ context.Context, id int64) (admin.WaveDetail, bool, error) {
	return admin.WaveDetail{Subject: "offer"}, id != 404, b.call("wave %d", id)
}

func (b *backstage) Cleared() []admin.Cleared {
	return []admin.Cleared{{By: "ann", Signature: bulkhead.MustSignature(bulkhead.DCCBody, []byte{7})}}
}
func (b *backstage) Clear(sigs []bulkhead.Signature, by, note string) (all []admin.Cleared, err error) {
	for _, sig := range sigs {
		all = append(all, admin.Cleared{Signature: sig, By: by})
	}
	return all, b.call("clear %v %s %s", sigs, by, note)
}
func (b *backstage) Unclear(sig bulkhead.Signature) (bool, error) {
	return sig.Sum()[0] != 0xff, b.call("unclear %v", sig)
}

func (b *backstage) Config() admin.Configuration { return admin.Configuration{Reloadable: true} }
func (b *backstage) CheckConfig(text string) admin.ConfigCheck {
	return admin.ConfigCheck{Mistakes: []string{"no " + text}}
}
func (b *backstage) PreviewReload() (admin.ConfigCheck, error) {
	return admin.ConfigCheck{Diff: []admin.SettingChange{{Key: "k"}}}, b.call("preview")
}
func (b *backstage) ReloadConfig() (admin.ConfigCheck, error) {
	return admin.ConfigCheck{Changed: []string{"a", "b"}, Restart: []string{"c"}}, b.call("reload")
}

func (b *backstage) TopRateKeys(n int) ([]admin.TopKeys, error) { return nil, b.call("top %d", n) }
func (b *backstage) EditList(_ context.Context, name string, e *admin.ListEdit) (admin.ListEdited, error) {
	return admin.ListEdited{Added: e.Add, Known: 5}, b.call("edit %s %v %v %v", name, e.Add, e.Remove, e.Dry)
}

func (b *backstage) Invite(_ context.Context, n admin.NewInvitation) (admin.Invitation, error) {
	return admin.Invitation{ID: "i", Name: n.Name, Weight: n.Weight, Uses: 2}, b.call("invite %s", n.Name)
}
func (b *backstage) Invitations(context.Context) ([]admin.Invitation, error) {
	return nil, b.call("invitations")
}
func (b *backstage) Withdraw(_ context.Context, id string) error { return b.call("withdraw %s", id) }
func (b *backstage) Decide(_ context.Context, key string, accept bool) error {
	return b.call("decide %.2s %v", key, accept)
}
func (b *backstage) Join(_ context.Context, j admin.Join) (admin.Joining, error) {
	return admin.Joining{Network: "n", Inviter: "i", State: "joined"}, b.call("join %s", j.Line)
}
func (b *backstage) Leave(context.Context) (admin.Left, error) {
	return admin.Left{Network: "n"}, b.call("leave")
}
func (b *backstage) ChangeSecret(context.Context, admin.NewSecret) (admin.SecretChange, error) {
	return admin.SecretChange{From: "f", To: "t", At: time.Unix(1e9, 0)}, b.call("change")
}
func (b *backstage) KeepSecret(context.Context) (admin.SecretChange, error) {
	return admin.SecretChange{From: "t", To: "f", At: time.Unix(1e9, 0)}, b.call("keep")
}
func (b *backstage) ForgetPeer(_ context.Context, key string) error {
	return b.call("forget %.2s", key)
}

func (b *backstage) WeighPeer(_ context.Context, key string, weight float64) error {
	return b.call("weigh %.2s %v", key, weight)
}

func (b *backstage) Append(e admin.AuditEntry) error { b.acts = append(b.acts, e); return nil }
func (b *backstage) Read(q admin.AuditQuery) (admin.AuditPage, error) {
	return admin.AuditPage{Next: 6}, b.call("audit %s %s %s %s %d %d", moment(q.Since), moment(q.Until), q.Account,
		q.Action, q.Before, q.Limit)
}

// server returns a server in front of b. With bare set, the node has none of the parts that it may lack.
func (b *backstage) server(t *testing.T, bare bool) *Server {
	b.fakeUsers = newFakeUsers()
	b.peers = []admin.Peer{{Key: testKey('B')}}
	b.state = admin.NodeState{
		Ageing:  &admin.Ageing{Clock: time.Unix(3, 0), Newest: time.Unix(2, 0), Tally: 4, Blocklist: 5},
		Standby: &admin.Standby{Term: 7, Last: 8, Lag: 9},
	}
	return newServer(t, &b.recorder, func(o *Options) {
		o.Users, o.Accounts = b.fakeUsers, b.fakeUsers
		if bare {
			o.Node = nil
			return
		}
		o.Node, o.History, o.Whitelist, o.Config, o.Audit, o.Pairing, o.Peers = b, b, b, b, b, b, b
		o.Lists, o.RateLimits = b, b
		o.Read = func(ctx context.Context, raw []byte, dkim []string) ([]bulkhead.Signature, bulkhead.Source, error) {
			sigs, source, err := readMail(ctx, raw, dkim)
			source.Features = []string{"w1", "w2"}
			return sigs, source, err
		}
		o.Verdicts = func(since, until time.Time, slot time.Duration) admin.Verdicts {
			b.calls = append(b.calls, fmt.Sprintf("verdicts %s %s %v", moment(since), moment(until), slot))
			return admin.Verdicts{Slot: int64(slot / time.Second)}
		}
		o.Overview = func(_ context.Context, acts bool) (admin.Overview, error) {
			return admin.Overview{Known: true}, b.call("overview %v", acts)
		}
	})
}

// TestOperations checks the operations that a part of the node behind the API does: what the part is asked for, what
// the client gets, and what the record of administration has. A part that fails or that the node lacks is reported, and
// nothing else is asked for then, nor after a malformed request.
func TestOperations(t *testing.T) {
	key, b := testKey('B'), new(backstage)
	whole, bare := b.server(t, false), new(backstage).server(t, true)
	const page, day = "since=2001-09-09T01:46:40Z&until=2001-09-10T01:46:40Z", "1000000000 1000086400"
	for _, tt := range []struct {
		request, body string // the body of a POST, PUT or PATCH
		code          int
		calls         string // separated by "; "
		says          string
		about         string // of the record, as fmt prints a map; "" for no record
	}{
		{"GET /v1/history?" + page + "&door=d&kind=spam&class=good&outcome=caught&reporter=r&domain=do&from=f&link=l" +
			"&message_id=m&signature=s&before=9&limit=7", "", 200, "history " + day + " d spam good caught r do f l m s 9 7",
			`{"entries":[],"read":8}`, ""},
		{"GET /v1/history?since=today", "", 400, "", "is not a time", ""},
		{"GET /v1/history?until=2026-01-02", "", 400, "", "is not a time", ""},
		{"GET /v1/history?before=1", "", 200, "history             1 0", `"entries":[]`, ""},
		{"GET /v1/history?before=0", "", 400, "", "before", ""},
		{"GET /v1/history?before=x", "", 400, "", "before", ""},
		{"GET /v1/history?limit=x", "", 400, "", "limit", ""},
		{"GET /v1/history/1", "", 200, "entry 1", `"id":1`, ""},
		{"GET /v1/history/404", "", 404, "entry 404", "entry 404 is not in the history", ""},
		{"GET /v1/history/0", "", 400, "", "is not a number", ""},
		{"GET /v1/history/1x", "", 400, "", "is not a number", ""},
		{"GET /v1/history/5/verdict", "", 200, "explain 5", `"confidence":5`, ""},
		{"GET /v1/history/404/verdict", "", 404, "explain 404", "entry 404 is not in the history", ""},
		{"GET /v1/waves?class=spam&sort=growth&posts=true&limit=3", "", 200, "waves spam growth true 3",
			`{"waves":[],"of":8`, ""},
		{"GET /v1/waves?posts=false", "", 200, "waves   false 0", `"waves":[]`, ""},
		{"GET /v1/waves/5", "", 200, "wave 5", `"subject":"offer"`, ""},
		{"GET /v1/waves/404", "", 404, "wave 404", "no wave 404", ""},
		{"GET /v1/whitelist", "", 200, "", `"by":"ann"`, ""},
		{"POST /v1/whitelist", `{"entry":5,"note":"ours"}`, 200, "entry 5; clear [dcc/body:07] alice ours",
			`"signature":"dcc/body:07"`, "map[entry:5 signature 1:dcc/body:07]"},
		{"POST /v1/whitelist", `{"entry":404}`, 404, "entry 404", "not in the history", "map[entry:404]"},
		{"DELETE /v1/whitelist?signature=dcc/body:07", "", 204, "unclear dcc/body:07", "", "map[signature:dcc/body:07]"},
		{"DELETE /v1/whitelist?signature=dcc/body:ff", "", 404, "unclear dcc/body:ff", "was not put",
			"map[signature:dcc/body:ff]"},
		{"DELETE /v1/whitelist?signature=dcc", "", 400, "", "signature", "map[]"},
		{"GET /v1/audit?" + page + "&account=a&action=b&before=3&limit=2", "", 200, "audit " + day + " a b 3 2",
			`"next":6`, ""},
		{"GET /v1/audit?since=x", "", 400, "", "is not a time", ""},

		{"GET /v1/config", "", 200, "", `"reloadable":true`, ""},
		{"POST /v1/config/check", `{"text":"door"}`, 200, "", `{"mistakes":["no door"],"changed":[],"restart":[],"diff":[]}`,
			"map[mistakes:1]"},
		{"GET /v1/config/reload", "", 200, "preview", `"mistakes":[],"changed":[],"restart":[],"diff":[{"key":"k"`, ""},
		{"POST /v1/config/reload", "", 200, "reload", `"mistakes":[],"changed":["a","b"],"restart":["c"],"diff":[]`,
			"map[changed:[a b] mistakes:0 need_restart:[c]]"},
		{"GET /v1/weights", "", 200, "", "[]\n", ""},
		{"GET /v1/ratelimits/top", "", 200, "top 20", "[]\n", ""},
		{"GET /v1/ratelimits/top?limit=1", "", 200, "top 1", "[]\n", ""},
		{"GET /v1/ratelimits/top?limit=129", "", 200, "top 128", "[]\n", ""},
		{"GET /v1/ratelimits/top?limit=x", "", 400, "", "limit", ""},
		{"POST /v1/lists/bad/entries", `{"add":["a"],"dry":true}`, 200, "edit bad [a] [] true",
			`{"added":["a"],"restored":[],"removed":[],"known":5`,
			"map[added:1 dry:true list:bad removed:0 restored:0]"},

		{"GET /v1/rules", "", 200, "", `"name":"of 28"`, ""},
		{"GET /v1/rules?days=3", "", 200, "", `"name":"of 3"`, ""},
		{"GET /v1/rules?days=29", "", 400, "", "days", ""},
		{"POST /v1/ageing/confirm", "", 200, "confirm", `"ageing_held"`,
			"map[clock:1970-01-01T00:00:03Z expired_blocklist:5 expired_tally:4 newest_record:1970-01-01T00:00:02Z]"},
		{"POST /v1/ageing/restore", "", 200, "bring back", `{"generations":3,"expired":1}`, "map[expired:1 generations:3]"},
		{"POST /v1/standby/promote", "", 200, "promote", `"standby"`, "map[lag:9 last:8 term:7]"},
		{"POST /v1/learn?as=spam", sample, 200, "learn alice 1 [w1 w2] true", `{"features":2}`, ""},
		{"POST /v1/learn?as=delivered", sample, 200, "learn alice 1 [w1 w2] false", `{"features":2}`, ""},
		{"POST /v1/learn", sample, 400, "", "want spam or delivered", ""},
		{"POST /v1/learn?as=ham", sample, 400, "", "want spam or delivered", ""},
		{"GET /v1/verdicts?" + page + "&slot=10m", "", 200, "verdicts " + day + " 10m0s", `"slot_seconds":600`, ""},
		{"GET /v1/verdicts", "", 200, "verdicts   1h0m0s", `"slot_seconds":3600`, ""},
		{"GET /v1/verdicts?until=x", "", 400, "", "is not a time", ""},
		{"GET /v1/verdicts?at=x", "", 400, "", "at", ""},
		{"GET /v1/overview", "", 200, "overview true", `"known":true`, ""},

		{"POST /v1/invitations", `{"name":"c","weight":0.5}`, 201, "invite c", `"id":"i"`,
			"map[invitation:i name:c uses:2 weight:0.5]"},
		{"GET /v1/invitations", "", 200, "invitations", "[]\n", ""},
		{"DELETE /v1/invitations/5", "", 204, "withdraw 5", "", "map[invitation:5]"},
		{"POST /v1/peers/" + key + "/accept", "", 200, "decide UB true", `"key":"UB`, "map[peer:" + key + "]"},
		{"POST /v1/peers/" + key + "/refuse", "", 204, "decide UB false", "", "map[peer:" + key + "]"},
		{"POST /v1/peers/" + key + "/forget", "", 200, "forget UB", `"key":"UB`, "map[peer:" + key + "]"},
		{"POST /v1/peers/k/forget", "", 404, "", "no peer", "map[peer:k]"},
		{"PATCH /v1/peers/" + key, `{"weight":0.5}`, 200, "weigh UB 0.5", `"key":"UB`, "map[peer:" + key + " weight:0.5]"},
		{"PATCH /v1/peers/k", `{"weight":0.5}`, 404, "", "no peer", "map[peer:k weight:0.5]"},
		{"POST /v1/network/join", `{"line":"l","weight":1}`, 200, "join l", `"state":"joined"`,
			"map[inviter:i network:n state:joined]"},
		{"POST /v1/network/leave", "", 200, "leave", `"network":"n"`, "map[network:n]"},
		{"POST /v1/network/secret", `{"after_seconds":5}`, 201, "change", `"to":"t"`,
			"map[at:2001-09-09T01:46:40Z before:f network:t]"},
		{"DELETE /v1/network/secret", "", 200, "keep", `"to":"f"`, "map[at:2001-09-09T01:46:40Z before:t network:f]"},
	} {
		method, path, _ := strings.Cut(tt.request, " ")
		kind := ""
		if tt.body != "" {
			kind = requestType
		}
		if tt.body == sample {
			kind = mailType
		}
		ask := func(s *Server, failAt int, kind, body string) (code int, answer string) {
			b.calls, b.acts, b.failAt = nil, nil, failAt
			w := send(s, local, method, path, kind, body, "Authorization", "Bearer token-alice")
			return w.Code, w.Body.String()
		}
		code, answer := ask(whole, 0, kind, tt.body)
		calls := b.calls
		if got := strings.Join(calls, "; "); code != tt.code || got != tt.calls || !strings.Contains(answer, tt.says) {
			t.Errorf("%s: %d %s, calls %q; want %d with %q, calls %q", tt.request, code, answer, got, tt.code, tt.says, tt.calls)
		}
		about := ""
		for _, e := range b.acts {
			about += fmt.Sprint(e.About)
			if (e.Error == "") != (code < 300) || e.Account != "alice" {
				t.Errorf("%s: recorded as %+v", tt.request, e)
			}
		}
		if about != tt.about {
			t.Errorf("%s: recorded with %s, want %s", tt.request, about, tt.about)
		}
		for i := range calls {
			if code, answer := ask(whole, i+1, kind, tt.body); !strings.HasPrefix(calls[i], "verdicts") && (code != 500 ||
				!slices.Equal(b.calls, calls[:i+1]) || strings.Contains(answer, errDisk.Error())) {
				t.Errorf("%s, where %q fails: %d %s, calls %q", tt.request, calls[i], code, answer, b.calls)
			}
		}
		if code < 300 {
			empty := answer == "[]\n" && method == http.MethodGet && strings.HasPrefix(path, "/v1/weights")
			if code, answer := ask(bare, 0, kind, tt.body); code != 404 && !empty {
				t.Errorf("%s of a node that lacks the part: %d %s", tt.request, code, answer)
			}
		}
		for _, wrong := range [][3]string{{"text/plain", tt.body, "415"}, {kind, "{", "400"},
			{kind, "[" + tt.body + "]", "400"}} {
			if kind == requestType || kind == mailType && wrong[2] == "415" {
				if code, answer := ask(whole, 0, wrong[0], wrong[1]); fmt.Sprint(code) != wrong[2] || len(b.calls) > 0 {
					t.Errorf("%s with %s %q: %d %s, calls %q", tt.request, wrong[0], wrong[1], code, answer, b.calls)
				}
			}
		}
	}
	b.calls, b.acts, b.failAt = nil, nil, 1
	send(whole, local, "POST", "/v1/lists/bad/entries", requestType, `{"add":["a"]}`,
		"Authorization", "Bearer token-alice")
	if got := fmt.Sprint(b.acts[0].About); got != "map[list:bad]" {
		t.Errorf("an edit that failed is recorded with %s", got)
	}
	b.calls, b.failAt = nil, 0
	send(whole, local, "GET", "/v1/overview", "", "", "Authorization", "Bearer token-bob")
	if want := []string{"overview false"}; !slices.Equal(b.calls, want) {
		t.Errorf("the overview for a reporter: calls %q, want %q", b.calls, want)
	}
}

// TestRememberedVotes checks the votes on messages that the node remembers.
func TestRememberedVotes(t *testing.T) {
	sigs := []bulkhead.Signature{bulkhead.MustSignature(bulkhead.DCCBody, []byte{7})}
	for _, tt := range []struct {
		path, body string
		code       int
		calls      string
		want       bulkhead.Report
	}{
		{"/v1/reports", `{"message_id":"<m>","vote":"ham","user":"u","id":"i"}`, 200, "remembered alice u <m> 0",
			bulkhead.Report{Vote: bulkhead.Ham, ID: "i", Source: bulkhead.Source{MessageID: "<m>"}}},
		{"/v1/reports", `{"message_id":"unknown"}`, 404, "remembered alice  unknown 0", bulkhead.Report{}},
		{"/v1/reports", `{"message_id":"white"}`, 422, "remembered alice  white 0", bulkhead.Report{}},
		{"/v1/history/5", `{"user":"u"}`, 200, "remembered alice u  5", bulkhead.Report{Vote: bulkhead.Spam}},
		{"/v1/history/5", `{"vote":"revoke"}`, 200, "remembered alice   5", bulkhead.Report{Vote: bulkhead.Revocation}},
		{"/v1/history/5", `{"id":"` + strings.Repeat("é", 128) + `"}`, 400, "remembered alice   5", bulkhead.Report{}},
		{"/v1/history/0", `{}`, 400, "", bulkhead.Report{}},
		{"/v1/history/5", `{"vote":"maybe"}`, 400, "", bulkhead.Report{}},
		{"/v1/reports", `{"message_id":7}`, 400, "", bulkhead.Report{}},
	} {
		b := new(backstage)
		s := b.server(t, false)
		w := send(s, local, "POST", tt.path, requestType, tt.body, "Authorization", "Bearer token-alice")
		if calls := strings.Join(b.calls, "; "); w.Code != tt.code || calls != tt.calls {
			t.Errorf("%s %s: %d %s, calls %q; want %d, calls %q", tt.path, tt.body, w.Code, w.Body, calls, tt.code, tt.calls)
		}
		if tt.code == 200 {
			tt.want.Signatures = sigs
			tt.want.Reporter = bulkhead.Reporter{Account: "alice", Addr: netip.MustParseAddr("127.0.0.1")}
			if strings.Contains(tt.calls, " u ") {
				tt.want.Reporter.User = "u"
			}
		}
		if got := fmt.Sprintf("%+v", b.report); got != fmt.Sprintf("%+v", tt.want) {
			t.Errorf("%s %s: reported %s, want %+v", tt.path, tt.body, got, tt.want)
		}
		if w := send((&backstage{}).server(t, true), local, "POST", tt.path, requestType, tt.body, "Authorization",
			"Bearer token-alice"); tt.code == 200 && w.Code != 404 {
			t.Errorf("%s of a node without a history: %d %s", tt.path, w.Code, w.Body)
		}
	}
}

// TestReporterAtMail checks that an account without trust cannot use up the rate limits of others, nor vote on mail by
// a number that it guesses.
func TestReporterAtMail(t *testing.T) {
	for _, tt := range []struct {
		path, body string
		reporter   int
	}{
		{"/v1/ratelimits", `{"attributes":{"sasl_username":"ann"}}`, http.StatusForbidden},
		{"/v1/ratelimits", `{"attributes":{"sasl_username":"ann"},"readonly":true}`, http.StatusForbidden},
		{"/v1/history/5", `{}`, http.StatusForbidden},
		{"/v1/reports", `{"message_id":"<m>"}`, http.StatusOK},
	} {
		for header, want := range map[string]int{
			"Bearer token-bob": tt.reporter, "Bearer token-alice": http.StatusOK, "": http.StatusOK, // a program on the machine
		} {
			b, mta := new(backstage), fakeMTA{known: make(map[string]int)}
			s := b.server(t, false)
			s.opts.RateLimits = mta
			var headers []string
			if header != "" {
				headers = []string{"Authorization", header}
			}
			w := send(s, local, "POST", tt.path, requestType, tt.body, headers...)
			if w.Code != want || want != http.StatusOK && len(b.calls)+len(mta.known) > 0 {
				t.Errorf("%s %s with %q: %d %s, calls %q, want %d", tt.path, tt.body, header, w.Code, w.Body, b.calls, want)
			}
		}
	}
}
