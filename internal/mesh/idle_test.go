package mesh

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/pprof"
	"sync"
	"testing"
	"time"

	"github.com/bulkhead-mail/bulkhead/filter"
	"github.com/bulkhead-mail/bulkhead/internal/engine"
	"github.com/bulkhead-mail/bulkhead/internal/mesh/bus"
	"github.com/bulkhead-mail/bulkhead/internal/mesh/member"
	"github.com/bulkhead-mail/bulkhead/internal/mesh/wire"
	"github.com/bulkhead-mail/bulkhead/internal/testing/enginetest"
	"github.com/bulkhead-mail/bulkhead/internal/testing/meshtest"
)

// A light member does at a hub what an idle node of a group does there, without an engine.
type light struct {
	id      *member.Identity
	client  *bus.Client
	secrets *member.Secrets
	stamp   wire.Stamp
	round   wire.Round
}

// gate admits every key.
type gate struct{}

func (gate) Known(wire.Public, string) bool      { return true }
func (gate) Invited(string) bool                 { return false }
func (gate) RefuseStranger(string, string) bool  { return false }
func (gate) Added(wire.Hint)                     {}
func (gate) Dropped(string, wire.Hint) error     { return nil }
func (gate) Between(f func(ctx context.Context)) { f(context.Background()) }

// newLight connects a member to a hub.
func newLight(t testing.TB, address string, id *member.Identity, dir string, e *engine.Engine,
	heartbeat time.Duration) *light {
	t.Helper()
	o := &member.Options{Dir: dir, Identity: id, Engine: e, KeyID: enginetest.Secret.ID(), Secret: enginetest.Secret,
		Mode: member.Join, Heartbeat: heartbeat}
	if err := o.Complete(); err != nil {
		t.Fatal(err)
	}
	book, err := member.OpenBook(o, gate{})
	if err != nil {
		t.Fatal(err)
	}
	m := &light{id: id}
	if m.secrets, err = member.OpenSecrets(o, book); err != nil {
		t.Fatal(err)
	}
	m.client, err = bus.DialHub(&bus.Options{Dir: dir, Identity: id, KeyID: o.KeyID, Heartbeat: heartbeat,
		Refused: func(wire.Public) {}, Now: o.Now, Log: o.Log}, address, gate{})
	if err != nil {
		t.Fatal(err)
	}
	if err := m.client.Listen(id.Hint(), true, func(wire.Arrival) {}); err != nil {
		t.Fatal(err)
	}
	now := uint64(time.Now().UnixMilli())
	m.stamp = wire.Stamp{Incarnation: now, Boot: now, At: now}
	return m
}

// publish sends a message of the member.
func (m *light) publish(msg *wire.Message) error {
	m.stamp.Seq++
	m.stamp.At = uint64(time.Now().UnixMilli())
	msg.Stamp, msg.From, msg.KeyID = m.stamp, m.id.Hint(), enginetest.Secret.ID()
	return m.client.Publish(wire.Topic{Kind: msg.Kind, Origin: m.id.Hint()}, wire.AppendMessage(nil, msg, m.id))
}

// count publishes a round of one array.
func (m *light) count(t *testing.T, start uint64) error {
	m.round = meshtest.Round(t, wire.Ref{Array: engine.ArrayCounts, Start: start}, 0, 5)
	m.round.Lineage = wire.Lineage{{Boot: m.stamp.Boot}}
	return m.publish(&wire.Message{Kind: wire.KindDelta, Rounds: []wire.Round{m.round}})
}

// head publishes the version of the array.
func (m *light) head() error {
	x := wire.ArrayHead{Ref: m.round.Ref, Version: m.round.To, Geometry: m.round.Geometry, Lineage: m.round.Lineage}
	return m.publish(&wire.Message{Kind: wire.KindHead, Name: "member", Heads: []wire.ArrayHead{x}})
}

// ask asks the hub for the group and for another secret.
func (m *light) ask(ctx context.Context) error {
	hub, ok := m.client.Holder()
	if !ok {
		return errors.New("not connected")
	}
	if _, err := m.client.Request(ctx, wire.GroupPrefix+m.id.Hint().String(), nil); err != nil {
		err = fmt.Errorf("group: %w", err)
		return err
	}
	q, _, err := m.secrets.AskAfter(hub)
	if err != nil {
		return err
	}
	data, err := json.Marshal(q)
	if err != nil {
		return err
	}
	_, err = m.client.Request(ctx, wire.SecretPrefix+m.id.Hint().String(), data)
	return err
}

// idleHub is the environment variable that makes [TestIdleHub] the hub, with the folder of its files.
const idleHub = "BULKHEAD_IDLE_HUB"

// hubProcess is a hub with the members in a file. It prints its processor time at each line that it reads.
func hubProcess(t *testing.T, dir string) {
	id, err := member.OpenIdentity(dir)
	if err != nil {
		t.Fatal(err)
	}
	address := freePort(t)
	m, _ := start(t, member.Options{Dir: dir, Identity: id, Engine: enginetest.Small(t, nil), Mode: member.Hub,
		Listen: address, Secret: enginetest.Secret, Switch: func(filter.Secret) {}})
	fmt.Printf("hub %s %d %d\n", address, m.opts.Engine.Own()[0].Start, len(m.List()))
	profile := (*os.File)(nil)
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		if profile != nil {
			pprof.StopCPUProfile()
			profile.Close()
		}
		fmt.Printf("cpu %d\n", processor(t))
		if profile, err = os.Create(filepath.Join(os.TempDir(), "idle-"+in.Text()+".prof")); err != nil {
			t.Fatal(err)
		}
		if err := pprof.StartCPUProfile(profile); err != nil {
			t.Fatal(err)
		}
	}
}

// TestIdleHub measures what a hub in a process of its own does for members of a group that have nothing to
// share. It runs with BULKHEAD_MEASURE set.
func TestIdleHub(t *testing.T) {
	if dir := os.Getenv(idleHub); dir != "" {
		hubProcess(t, dir)
		return
	}
	if os.Getenv("BULKHEAD_MEASURE") == "" {
		t.Skip("a measurement: set BULKHEAD_MEASURE to run it")
	}
	const heartbeat = 30 * time.Second
	sizes := []int{10, 50, 200}
	dir, _ := meshtest.Folder(t)
	var ids []*member.Identity
	var folders []string
	var peers []member.Peer
	for range sizes[len(sizes)-1] {
		d, id := meshtest.Folder(t)
		folders, ids = append(folders, d), append(ids, id)
		peers = append(peers, member.Peer{ID: id.ID(), Weight: 1, Added: time.Now(), Group: "mail"})
	}
	list, err := json.Marshal(peers)
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, member.PeersFile), list, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	hub := exec.Command(os.Args[0], "-test.run=^TestIdleHub$", "-test.timeout=20m")
	hub.Env = append(os.Environ(), idleHub+"="+dir)
	hub.Stderr = os.Stderr
	in, err := hub.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := hub.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := hub.Start(); err != nil {
		t.Fatal(err)
	}
	defer hub.Wait()
	defer in.Close()
	lines := bufio.NewReader(out)
	address, began, known := "", uint64(0), 0
	if _, err := fmt.Fscanf(lines, "hub %s %d %d\n", &address, &began, &known); err != nil {
		t.Fatal(err)
	}
	used := func(name string) (d time.Duration) {
		t.Helper()
		if _, err := io.WriteString(in, name+"\n"); err != nil {
			t.Fatal(err)
		}
		if _, err := fmt.Fscanf(lines, "cpu %d\n", &d); err != nil {
			t.Fatal(err)
		}
		return d
	}
	e := enginetest.Small(t, nil)
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()
	var members []*light
	received := func() (messages, bytes uint64) {
		for _, m := range members {
			s := m.client.Conn.Stats()
			messages, bytes = messages+s.InMsgs, bytes+s.InBytes
		}
		return messages, bytes
	}
	for _, n := range sizes {
		for i := len(members); i < n; i++ {
			m := newLight(t, address, ids[i], folders[i], e, heartbeat)
			enginetest.Eventually(t, time.Minute, "connected", m.client.Connected)
			members = append(members, m)
			wg.Go(func() {
				err := m.count(t, began)
				for beat := 0; err == nil; beat++ {
					if err = m.head(); err == nil && beat%2 == 0 {
						err = m.ask(ctx)
					}
					select {
					case <-ctx.Done():
						return
					case <-time.After(heartbeat):
					}
				}
				if ctx.Err() == nil {
					t.Error(err)
				}
			})
		}
		<-time.After(heartbeat + 15*time.Second)
		messages, bytes := received()
		before := used(fmt.Sprint(n))
		<-time.After(2 * heartbeat)
		cpu := used("after") - before
		m, b := received()
		t.Logf("%d members, hub knows %d: %.2f s of processor a minute, %d messages, %.1f kB to members a minute", n,
			known, cpu.Seconds(), m-messages, float64(b-bytes)/1e3)
	}
}
