package mesh

import (
	"bytes"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/internal/engine"
	"github.com/bulkhead-mail/bulkhead/internal/mesh/bus"
	"github.com/bulkhead-mail/bulkhead/internal/mesh/member"
	"github.com/bulkhead-mail/bulkhead/internal/natsdial"
	"github.com/bulkhead-mail/bulkhead/internal/testing/enginetest"
	"github.com/bulkhead-mail/bulkhead/internal/testing/meshtest"
	"github.com/bulkhead-mail/bulkhead/internal/testing/nodetest"
)

// befriend makes every mesh a peer of every other.
func befriend(t *testing.T, all ...*Mesh) {
	t.Helper()
	for _, m := range all {
		for _, o := range all {
			if o == m {
				continue
			}
			if err := m.AddPeer(t.Context(), o.opts.Identity.ID(), "", 1); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// agree waits until all engines return the same number of sightings.
func agree(t *testing.T, engines []*engine.Engine, n int, want uint32) {
	t.Helper()
	for i, e := range engines {
		enginetest.Eventually(t, time.Minute, fmt.Sprintf("engine %d says %d of signature %d", i, want, n), func() bool {
			return enginetest.Check(t, e, n).Sightings == want
		})
	}
}

func quick(o member.Options) member.Options {
	o.Interval, o.Heartbeat = 50*time.Millisecond, 500*time.Millisecond
	return o
}

// TestPartitions connects three nodes through a proxy that is cut and healed. Then the hub is lost
// with all stored messages of its broker, and replaced.
func TestPartitions(t *testing.T) {
	address := freePort(t)
	proxies := []*nodetest.Wire{nodetest.NewWire(t, address), nodetest.NewWire(t, address)}
	engines := []*engine.Engine{enginetest.Small(t, nil), enginetest.Small(t, nil), enginetest.Small(t, nil)}
	hubDir, hubID := meshtest.Folder(t)
	hubOptions := quick(member.Options{Dir: hubDir, Identity: hubID, Engine: engines[0], Mode: member.Hub, Listen: address,
		Name: "hub"})
	hub, stopHub := start(t, hubOptions)
	meshes := []*Mesh{hub}
	for i, w := range proxies {
		dir, id := meshtest.Folder(t)
		m, _ := start(t, quick(member.Options{Dir: dir, Identity: id, Engine: engines[i+1], Mode: member.Join,
			Servers: []string{w.Address()}, Name: fmt.Sprint("join ", i)}))
		meshes = append(meshes, m)
	}
	befriend(t, meshes...)
	for i, e := range engines {
		enginetest.Report(t, e, 1, bulkhead.Sighting, []uint32{1, 10, 100}[i])
	}
	agree(t, engines, 1, 111)

	proxies[0].Partition(true)
	for i, e := range engines {
		enginetest.Report(t, e, 1, bulkhead.Sighting, []uint32{2, 20, 200}[i])
	}
	agree(t, []*engine.Engine{engines[0], engines[2]}, 1, 111+202)
	if got := enginetest.Check(t, engines[1], 1).Sightings; got != 111+20 {
		t.Errorf("cut off: %d sightings, want its own and the old ones of others, 131", got)
	}
	proxies[0].Partition(false)
	agree(t, engines, 1, 333)

	for i, e := range engines {
		enginetest.Report(t, e, 2, bulkhead.Sighting, []uint32{1, 10, 100}[i])
	}
	stopHub()
	for i, e := range engines {
		enginetest.Report(t, e, 2, bulkhead.Sighting, []uint32{2, 20, 200}[i])
	}
	if err := os.RemoveAll(filepath.Join(hubDir, bus.HubFolder)); err != nil {
		t.Fatal(err)
	}
	hubOptions.Store = "a new one" // a new incarnation of the store
	start(t, hubOptions)
	agree(t, engines, 2, 333)
	agree(t, engines, 1, 333)
}

// TestStrangerAtTheDoor checks that a hub admits no unknown key.
func TestStrangerAtTheDoor(t *testing.T) {
	address := freePort(t)
	hubDir, hubID := meshtest.Folder(t)
	hub, _ := start(t, quick(member.Options{Dir: hubDir, Identity: hubID, Engine: enginetest.Small(t, nil),
		Mode:   member.Hub,
		Listen: address}))
	dir, id := meshtest.Folder(t)
	stranger, _ := start(t, quick(member.Options{Dir: dir, Identity: id, Engine: enginetest.Small(t, nil),
		Mode:    member.Join,
		Servers: []string{address}}))
	enginetest.Eventually(t, time.Minute, "the stranger notices that it does not know the hub", func() bool {
		return strings.Contains(stranger.Status().Brokers[0].Error, "not on the list of peers")
	})
	if err := stranger.AddPeer(t.Context(), hubID.ID(), "", 1); err != nil {
		t.Fatal(err)
	}
	enginetest.Eventually(t, time.Minute, "the hub refuses the stranger", func() bool {
		return hub.Status().Strangers[bus.ReasonDoor] > 0
	})
	if stranger.Status().Brokers[0].Connected {
		t.Error("a stranger is connected")
	}
}

// TestEvictedAtTheDoor checks that an evicted peer loses its connection to the hub, and is not
// admitted again.
func TestEvictedAtTheDoor(t *testing.T) {
	address := freePort(t)
	hubDir, hubID := meshtest.Folder(t)
	hub, _ := start(t, quick(member.Options{Dir: hubDir, Identity: hubID, Engine: enginetest.Small(t, nil),
		Mode:   member.Hub,
		Listen: address}))
	var peers []*Mesh
	for range 2 {
		dir, id := meshtest.Folder(t)
		m, _ := start(t, quick(member.Options{Dir: dir, Identity: id, Engine: enginetest.Small(t, nil), Mode: member.Join,
			Servers: []string{address}}))
		peers = append(peers, m)
	}
	befriend(t, append(peers, hub)...)
	connected := func(m *Mesh) bool { return m.Status().Brokers[0].Connected }
	enginetest.Eventually(t, time.Minute, "connected", func() bool { return connected(peers[0]) && connected(peers[1]) })
	if err := hub.EvictPeer(t.Context(), peers[0].opts.Identity.ID()); err != nil {
		t.Fatal(err)
	}
	enginetest.Eventually(t, time.Minute, "refused after the eviction", func() bool {
		return !connected(peers[0]) && hub.Status().Strangers[bus.ReasonDoor] > 0
	})
	if !connected(peers[1]) {
		t.Error("the other peer lost its connection too")
	}
}

// TestStreamLimits checks that a hub keeps its stored messages when its operator gives it less
// room, or more, and obeys the new limit.
func TestStreamLimits(t *testing.T) {
	hubDir, hubID := meshtest.Folder(t)
	e := enginetest.Small(t, nil)
	n := uint32(0)
	for _, limit := range []int64{64 << 20, 1 << 20, 16 << 20} {
		address := freePort(t)
		hub, stop := start(t, quick(member.Options{Dir: hubDir, Identity: hubID, Engine: e, Mode: member.Hub, Listen: address,
			StreamBytes: limit, StreamAge: time.Duration(limit) * time.Millisecond}))
		_, id := meshtest.Folder(t)
		if err := hub.AddPeer(t.Context(), id.ID(), "", 1); err != nil { // makes it create the streams
			t.Fatal(err)
		}
		n++
		var deltas, images *jetstream.StreamInfo
		enginetest.Eventually(t, time.Minute, fmt.Sprintf("streams are limited to %d bytes", limit), func() bool {
			enginetest.Report(t, e, 1, bulkhead.Sighting, 1) // counts before the hub records are in no round
			js, err := hub.buses[0].(*bus.Client).Streams(t.Context())
			if err != nil {
				return false
			}
			info := func(name string) *jetstream.StreamInfo {
				s, err := js.Stream(t.Context(), name)
				if err != nil {
					return nil
				}
				return s.CachedInfo()
			}
			names := bus.NewNames(enginetest.Secret.ID())
			deltas, images = info(names.DeltaStream()), info(names.ImageStream())
			return deltas != nil && images != nil && deltas.Config.MaxBytes == limit && images.Config.MaxBytes == 4*limit &&
				deltas.Config.MaxAge == time.Duration(limit)*time.Millisecond && deltas.State.Msgs >= uint64(n)
		})
		stop()
	}
}

// TestPasswordOfABroker checks that the password or token in a server's URL appears in no log and
// no status.
func TestPasswordOfABroker(t *testing.T) {
	dir, id := meshtest.Folder(t)
	var log bytes.Buffer
	servers := []string{"nats://node:open-sesame@" + freePort(t), "nats://open-sesame@" + freePort(t)}
	m, stop := start(t, quick(member.Options{Dir: dir, Identity: id, Engine: enginetest.Small(t, nil),
		Mode:        member.External,
		Servers:     servers,
		Credentials: natsdial.NoCredentials, Log: slog.New(slog.NewTextHandler(&log, nil))}))
	enginetest.Eventually(t, time.Minute, "the broker is away", func() bool { return m.Status().Brokers[0].Error != "" })
	s := m.Status().Brokers[0]
	stop()
	for what, text := range map[string]string{"status": fmt.Sprint(s), "log": log.String()} {
		if strings.Contains(text, "sesame") {
			t.Errorf("%s: %s", what, text)
		}
	}
	if !strings.Contains(s.Server, "nats://node:") || !strings.Contains(log.String(), "nats://node:") {
		t.Errorf("server %q; log: %s", s.Server, log.String())
	}
}

// TestExpelled checks that a node that a hub has evicted learns by which hub, also after a restart, and
// that a node that was never admitted does not take itself for expelled. A node that is a peer again
// is admitted.
func TestExpelled(t *testing.T) {
	address := freePort(t)
	hubDir, hubID := meshtest.Folder(t)
	hub, _ := start(t, quick(member.Options{Dir: hubDir, Identity: hubID, Engine: enginetest.Small(t, nil),
		Mode: member.Hub, Listen: address}))
	dir, id := meshtest.Folder(t)
	var log bytes.Buffer
	options := quick(member.Options{Dir: dir, Identity: id, Engine: enginetest.Small(t, nil), Mode: member.Join,
		Servers: []string{address}, Log: slog.New(slog.NewTextHandler(&log, nil))})
	node, stop := start(t, options)
	strangerDir, strangerID := meshtest.Folder(t)
	stranger, _ := start(t, quick(member.Options{Dir: strangerDir, Identity: strangerID,
		Engine: enginetest.Small(t, nil), Mode: member.Join, Servers: []string{address}}))
	if err := stranger.AddPeer(t.Context(), hubID.ID(), "", 1); err != nil {
		t.Fatal(err)
	}
	befriend(t, hub, node)
	expelled := func(m *Mesh) bool { return m.Status().Peers[0].Expels }
	connected := func() bool { return node.Status().Brokers[0].Connected && !expelled(node) }
	enginetest.Eventually(t, time.Minute, "the node is admitted", func() bool {
		return connected() && node.state.WasAdmitted(hubID.ID())
	})
	if err := hub.EvictPeer(t.Context(), id.ID()); err != nil {
		t.Fatal(err)
	}
	enginetest.Eventually(t, time.Minute, "the node reads that it was expelled", func() bool { return expelled(node) })
	stop()
	if !strings.Contains(log.String(), "expelled by") || !strings.Contains(log.String(), "bulkhead join") {
		t.Errorf("the log does not name who expelled the node:\n%s", log.String())
	}
	node, _ = start(t, options)
	enginetest.Eventually(t, time.Minute, "the node still reads it after a restart", func() bool { return expelled(node) })
	if expelled(stranger) {
		t.Error("a node that was never admitted takes itself for expelled")
	}
	if err := hub.AddPeer(t.Context(), id.ID(), "", 1); err != nil {
		t.Fatal(err)
	}
	enginetest.Eventually(t, time.Minute, "the node is admitted again", connected)
}
