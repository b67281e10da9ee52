package config

import (
	"fmt"
	"net"
	"net/url"
	"strings"
	"time"
)

// Mesh is the section [mesh].
type Mesh struct {
	Mode        string   `toml:"mode" doc:"\"off\": the node counts alone, unless it has joined a network with \"bulkhead join\";\n\"hub\": it runs the broker for itself and its peers;\n\"join\": it connects to the hubs of servers;\n\"external\": it uses NATS servers with JetStream of another operator"`
	Listen      string   `toml:"listen" doc:"address of a hub (TCP, always TLS): \"host:port\""`
	Servers     []string `toml:"servers" secret:"url" doc:"mode \"join\" (and further hubs of a hub): \"host:port\" of each hub, all are used\nat once; mode \"external\": URLs of the cluster's servers, \"tls://host:4222\""`
	Role        string   `toml:"role" doc:"\"both\"; \"subscribe\": count peers and publish nothing; \"publish\": publish and\ncount no peer (a spam trap)"`
	Credentials string   `toml:"credentials" doc:"mode \"external\": file with a user JWT and its key. Empty: the node's own key;\n\"none\": the servers ask for none, or the URLs have a name and password"`
	CA          string   `toml:"ca" doc:"mode \"external\": PEM file of the authorities for the servers' certificates.\nEmpty: the authorities of the system"`
	Cert        string   `toml:"cert" doc:"mode \"external\": PEM file of a certificate that this node shows the servers.\nEmpty: it shows none"`
	Key         string   `toml:"key" doc:"mode \"external\": PEM file of the key of that certificate"`
	Domain      string   `toml:"domain" doc:"mode \"external\": JetStream domain that keeps what is published, for servers that are\nleaf nodes of others. Empty: the servers keep it themselves"`
	Interval    Duration `toml:"publish_interval" doc:"time between two publications of what was counted. On average a peer knows after\nhalf of it; a shorter time costs more bytes per report"`
	ShareCounts int      `toml:"share_counts_from" doc:"count of a signature in a day from which on peers receive it, 1 to 15; they then receive\nthe whole count. 1 shares everything at once, so that a peer that can guess a message\ncan see that one person received it"`
	ShareVotes  int      `toml:"share_votes_from" doc:"number of trusted voters here who must have called a signature spam, or not spam, before\npeers receive its listing or revocation, 1 to 15. 1 shares it at once. If peers have\nreceived a listing, they receive its end at once"`
	RekeyEvery  Duration `toml:"rekey_every" doc:"mode \"hub\": time between two changes of the network's secret, which hubs announce\nby themselves: a multiple of blocklist.generation, and at least half of the time that\nthe books keep. The hub with the lowest key among those that name each other does it;\ngive all of them the same time. \"0s\": only \"bulkhead rekey\" changes it"`
	Heartbeat   Duration `toml:"heartbeat" doc:"time between two messages that state the versions of this node's arrays"`
	Memory      int64    `toml:"memory_bytes" doc:"memory for the counts of all peers, bytes. Beyond it, counts of peers are merged,\nwhich makes them less exact; what has no room even then is refused"`
	MaxAdds     float64  `toml:"peer_adds_per_minute" doc:"what one peer may count in a minute; an hour's worth may come at once. A peer\nthat exceeds it is quarantined: kept, but not counted until you weigh it again"`
	MaxListings float64  `toml:"peer_listings_per_minute" doc:"signatures that one peer may list or revoke in a minute, as above"`
	StreamAge   Duration `toml:"stream_age" doc:"how long the broker keeps what was published, for nodes that are away. A node that\nis away for longer is sent images of the arrays"`
	StreamBytes int64    `toml:"stream_bytes" doc:"how much of it the broker keeps, bytes; its images may take four times as much"`
	Replicas    int      `toml:"stream_replicas" doc:"mode \"external\": servers that keep each stream"`
}

func defaultMesh() Mesh {
	return Mesh{
		Mode: "off", Listen: "127.0.0.1:8421", Servers: []string{}, Role: "both",
		Interval: Duration(1500 * time.Millisecond), ShareCounts: 2, ShareVotes: 1, Heartbeat: Duration(30 * time.Second),
		Memory:  4 << 30,
		MaxAdds: 1e6, MaxListings: 1e5, StreamAge: Duration(72 * time.Hour), StreamBytes: 1 << 30, Replicas: 1,
	}
}

func (c *checker) mesh(m *Mesh) {
	c.oneOf("mesh.mode", m.Mode, "off", "hub", "join", "external")
	c.oneOf("mesh.role", m.Role, "both", "subscribe", "publish")
	c.address("mesh.listen", m.Listen, false)
	switch {
	case m.Mode == "hub" && m.Listen == "":
		c.fail("mesh.listen", "a hub needs an address")
	case (m.Mode == "join" || m.Mode == "external") && len(m.Servers) == 0:
		c.fail("mesh.servers", "mode %q needs at least one server", m.Mode)
	}
	c.access("mesh", m.Mode == "external", m.Access())
	c.servers("mesh.servers", m.Mode, m.Servers)
	c.duration("mesh.publish_interval", m.Interval, 10*time.Millisecond, time.Minute)
	c.between("mesh.share_counts_from", float64(m.ShareCounts), 1, 15)
	c.between("mesh.share_votes_from", float64(m.ShareVotes), 1, 15)
	c.duration("mesh.rekey_every", m.RekeyEvery, 0, 366*24*time.Hour)
	c.duration("mesh.heartbeat", m.Heartbeat, 100*time.Millisecond, time.Hour)
	c.between("mesh.memory_bytes", float64(m.Memory), 1<<20, 1<<50)
	c.between("mesh.peer_adds_per_minute", m.MaxAdds, 1, 1e12)
	c.between("mesh.peer_listings_per_minute", m.MaxListings, 1, 1e12)
	c.duration("mesh.stream_age", m.StreamAge, time.Minute, 366*24*time.Hour)
	c.between("mesh.stream_bytes", float64(m.StreamBytes), 1<<20, 1<<50)
	c.between("mesh.stream_replicas", float64(m.Replicas), 1, 5)
}

// An Access holds what a node needs to log in to NATS servers that it does not run.
type Access struct{ Credentials, CA, Cert, Key, Domain string }

// Access returns the log-in for the servers of mode "external".
func (m *Mesh) Access() Access { return Access{m.Credentials, m.CA, m.Cert, m.Key, m.Domain} }

// CheckDomain returns an error if name cannot be the name of a JetStream domain, which is part of a
// subject. "" stands for no domain.
func CheckDomain(name string) error {
	const letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-"
	if len(name) > 64 || strings.Trim(name, letters) != "" {
		return fmt.Errorf("%.80q is not a JetStream domain: want up to 64 letters, digits, - and _", name)
	}
	return nil
}

func (c *checker) access(section string, external bool, a Access) {
	switch {
	case !external && a != Access{}:
		c.fail(section+".credentials",
			"credentials, ca, cert, key and domain are for NATS servers (mode \"external\"); peers know each other "+
				"by their keys")
	case (a.Cert == "") != (a.Key == ""):
		c.fail(section+".cert", "cert and key are given together or not at all")
	}
	if err := CheckDomain(a.Domain); err != nil {
		c.fail(section+".domain", "%v", err)
	}
}

// rekeying checks that the secret changes rarely enough for a node to need few secrets.
func (c *checker) rekeying(m *Mesh, a *Aggregate, t *Tally, b *Blocklist) {
	every, kept := m.RekeyEvery, max(Duration(t.Keep)*t.Generation, Duration(b.Keep)*b.Generation)
	switch {
	case every == 0 || b.Generation <= 0:
	case m.Mode != "hub":
		c.fail("mesh.rekey_every", "mode %q: only hubs announce another secret", m.Mode)
	case len(a.Servers) > 0:
		c.fail("mesh.rekey_every", "this node publishes a sum: the hubs of aggregate.servers announce another secret to it")
	case every%b.Generation != 0:
		c.fail("mesh.rekey_every", "%v is no multiple of blocklist.generation, %v", every, b.Generation)
	case every < (kept+1)/2:
		c.fail("mesh.rekey_every",
			"%v is less than half of the %v for which the books keep what they count: a check costs more with each secret",
			every, kept)
	}
}

func (c *checker) servers(key, mode string, servers []string) {
	if len(servers) > 16 {
		c.fail(key, "%d servers, limit 16", len(servers))
	}
	for _, s := range servers {
		if mode != "external" {
			if host, _, err := net.SplitHostPort(s); err != nil || host == "" {
				c.fail(key, "%.80q is not host:port", s)
			}
			continue
		}
		u, err := url.Parse(s)
		if err != nil || u.Host == "" || u.Scheme != "nats" && u.Scheme != "tls" && u.Scheme != "ws" && u.Scheme != "wss" {
			c.fail(key, "%.80q is not a URL like \"tls://host:4222\"", s)
		}
	}
}
