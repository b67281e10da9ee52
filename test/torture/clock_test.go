//go:build interop

package torture

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/client/admin"
	"github.com/bulkhead-mail/bulkhead/internal/testing/nodetest"
)

// TestClock moves the clock of a node forward and back by seconds to days while clients use its
// doors, and back by a start with the machine's time. Nothing that was acknowledged is lost, limits
// hold, and a peer knows all of it once its own clock has caught up. Generations that are old
// enough are gone in the end.
func TestClock(t *testing.T) {
	const furthest, behind = 20 * 24 * time.Hour, 10 * 24 * time.Hour // of the machine's time
	hub := nodetest.Address(t)
	v := newVictim(t, filepath.Join(t.TempDir(), "data"), strings.Replace(settings, "[tally]", "[tally]\nkeep = 40", 1)+
		fmt.Sprintf(
			"[mesh]\nmode = \"hub\"\nlisten = %q\npublish_interval = \"100ms\"\nheartbeat = \"1s\"\nshare_counts_from = 1\n",
			hub))
	v.bin = nodetest.Simulated(t)
	peer := v.withPeer(hub)
	p := v.serve()

	ahead := time.Duration(0)
	kinds := []string{"limits asked about"}
	v.torture(20*time.Second, kinds, func() {
		pause, back, stop := v.someTime(500), v.rng.IntN(3) == 0, v.rng.IntN(2) == 0
		by := time.Duration(1 +
			v.rng.Int64N(int64([]time.Duration{time.Minute, 3 * time.Hour, 3 * 24 * time.Hour}[v.rng.IntN(3)])))
		end := v.begin()
		runFor(pause)
		switch {
		case !back && ahead+by < furthest:
			advance(t, v.client, by)
			ahead += by
			v.faults["clock moved forward by "+sizeOf(by)]++
			runFor(pause)
			end()
		case ahead-by > -behind && v.rng.IntN(2) == 0:
			moveClock(t, v.client, "back", by)
			ahead -= by
			v.faults["clock moved back by "+sizeOf(by)+" while it runs"]++
			runFor(pause)
			end()
		case stop:
			p.Stop()
			end()
			p = v.serve()
			v.faults["clock moved by "+sizeOf(ahead)+" with a restart"]++
			ahead = 0
		default:
			p.Kill()
			end()
			p = v.serve()
			v.faults["clock moved by "+sizeOf(ahead)+", and killed"]++
			ahead = 0
		}
		v.settled()
		v.compare(fmt.Sprintf("%v ahead", ahead))
		v.limits(ahead)
	})
	advance(t, peer, furthest)
	v.shared(peer)

	// Counts are kept for 40 days, and votes for eight weeks.
	// A jump is held until it is confirmed. Counts of a wrong clock age from then on.
	for _, by := range []time.Duration{furthest + behind + 65*24*time.Hour, 65 * 24 * time.Hour} {
		advance(t, v.client, by)
		v.run(0, "clock", "confirm", "--server", v.client.Server, "--token-file", filepath.Join(v.data, "admin.token"))
	}
	v.acked, v.sent = [signatures]uint32{}, [signatures]uint32{}
	v.others.expire()
	v.compare("when everything is old")
	p.Stop()
	v.finish(kinds)
}

// settled waits until the milter has counted all mail that it answered.
func (v *victim) settled() {
	v.t.Helper()
	v.await("the sightings of the milter", func() bool {
		judged := v.sum(`bulkhead_milter_messages_total\{.*\}`)
		return v.sum(`bulkhead_door_reports_total\{door="milter",vote="sighting"\}`)+
			v.sum(`bulkhead_door_refused_total\{door="milter"\}`) >= judged
	})
}

// sum returns the sum of the metrics of the node whose names and labels match.
func (v *victim) sum(pattern string) (sum float64) {
	v.t.Helper()
	resp, err := http.Get(v.client.Server + "/metrics")
	if err != nil {
		v.t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	lines := regexp.MustCompile("(?m)^"+pattern+" (.*)$").FindAllSubmatch(text, -1)
	if err != nil || len(lines) == 0 {
		v.t.Fatalf("no metric %s: %v", pattern, err)
	}
	for _, l := range lines {
		n, err := strconv.ParseFloat(string(l[1]), 64)
		if err != nil {
			v.t.Fatal(err)
		}
		sum += n
	}
	return sum
}

func sizeOf(d time.Duration) string {
	switch d = d.Abs(); {
	case d >= 24*time.Hour:
		return "days"
	case d >= time.Hour:
		return "hours"
	}
	return "less than an hour"
}

// advance moves the clock of a node forward.
func advance(t *testing.T, node *admin.Client, by time.Duration) {
	t.Helper()
	moveClock(t, node, "advance", by)
}

// moveClock is advance, or the way back.
func moveClock(t *testing.T, node *admin.Client, way string, by time.Duration) {
	t.Helper()
	resp, err := http.Post(node.Server+"/v1/clock?"+way+"="+by.String(), "message/rfc822", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if text, err := io.ReadAll(resp.Body); err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("%s %v: %s: %s %v", way, by, resp.Status, text, err)
	}
}

// withPeer makes the victim and another node peers of each other, with a hub at an address
// of the victim's, and returns the other one, which runs until the test ends.
func (v *victim) withPeer(hub string) *admin.Client {
	t := v.t
	t.Helper()
	secret, data := filepath.Join(v.dir, "secret"), filepath.Join(v.dir, "peer")
	keys := make([]string, 2)
	for i, args := range [][]string{{"--data", v.data}, {"--data", data, "--secret-file", secret}} {
		var info struct{ Key, Secret string }
		if err := json.Unmarshal(v.run(0, append([]string{"network", "new", "--json"}, args...)...), &info); err != nil {
			t.Fatal(err)
		}
		keys[i] = info.Key
		if i == 0 {
			if err := json.Unmarshal(v.run(0, "network", "show", "--secret", "--json", "--data", v.data), &info); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(secret, []byte(info.Secret), 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	address := nodetest.Address(t)
	config := fmt.Sprintf(
		"[node]\nlog_level = \"warn\"\n[listen]\nhttp = %q\n[tally]\nkeep = 40\n[mesh]\nmode = \"join\"\nservers = [%q]\n"+
			"publish_interval = \"100ms\"\nheartbeat = \"1s\"\nshare_counts_from = 1\n", address, hub)
	if err := os.WriteFile(filepath.Join(v.dir, "peer.toml"), []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	peer := admin.New("http://"+address, "")
	victim := v.serve()
	nodetest.Run(t, v.dir, v.bin, "serve", "--config", "peer.toml", "--data", data)
	nodetest.Await(t, "the peer", func() bool { return peer.Ready(t.Context()) == nil })
	for i, n := range []struct {
		data string
		*admin.Client
	}{{v.data, v.client}, {data, peer}} {
		token, err := os.ReadFile(filepath.Join(n.data, "admin.token"))
		if err != nil {
			t.Fatal(err)
		}
		root := admin.New(n.Server, strings.TrimSpace(string(token)))
		if _, err := root.AddPeer(t.Context(), admin.NewPeer{Key: keys[1-i], Name: "other", Weight: 1}); err != nil {
			t.Fatal(err)
		}
	}
	victim.Stop()
	return peer
}

// shared waits until a peer counts what the victim does, and wants it never to count more.
func (v *victim) shared(peer *admin.Client) {
	t := v.t
	t.Helper()
	nodetest.Settle(t, nodetest.Patience, "the peer knows everything", func() string {
		less := ""
		for from := 0; from < signatures; from += 500 {
			seen := make([]bulkhead.Look, 500)
			if err := peer.Look(t.Context(), v.sigs[from:from+500], seen, bulkhead.Counts); err != nil {
				t.Fatalf("the peer: %v", err)
			}
			for k := range seen {
				i, got := from+k, seen[k].Sightings
				if got > v.sent[i] {
					t.Fatalf("the peer counts signature %d %d times, and %d were sent", i, got, v.sent[i])
				}
				if got < v.acked[i] {
					less = fmt.Sprintf("it counts signature %d %d times, and %d were acknowledged", i, got, v.acked[i])
				}
			}
		}
		return less
	})
}

// limits requires that an unknown user has exactly the five recipients an hour that the rule
// allows.
func (v *victim) limits(ahead time.Duration) {
	user := fmt.Sprintf("user%016x@example.com", v.rng.Uint64())
	for i := range 7 {
		request := fmt.Sprintf(
			"request=smtpd_access_policy\nprotocol_state=RCPT\nsender=%s\nrecipient=r%d@example.com\n"+
				"client_address=192.0.2.7\n\n", user, i)
		var answer string
		// A machine with much to do may be late. A retried request is counted once.
		nodetest.Settle(v.t, patienceAtStart, "an answer of the policy door", func() string {
			var err error
			if answer, err = v.others.ask("policy", request); err != nil {
				return err.Error()
			}
			return ""
		})
		if accepted := strings.HasPrefix(answer, "action=DUNNO"); accepted != (i < 5) {
			v.t.Errorf("%v ahead: recipient %d of a new user is answered %.60q", ahead, i, answer)
		}
	}
	v.faults["limits asked about"]++
}
