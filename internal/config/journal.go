package config

import "regexp"

// Journal is the section [journal].
type Journal struct {
	Kind        string   `toml:"kind" doc:"where acknowledged reports are kept. \"file\": on this node's disk; \"jetstream\": also\nin a stream of NATS servers, see docs/standby.md. The same on both nodes of a pair"`
	Servers     []string `toml:"servers" secret:"url" doc:"with \"jetstream\": URLs of NATS servers with JetStream, \"tls://host:4222\". Empty: the\nservers of standby.witness, with its credentials"`
	Credentials string   `toml:"credentials" doc:"of these servers: file with a user JWT and its key. Empty: none, or the URLs have a name\nand password"`
	CA          string   `toml:"ca" doc:"of these servers: PEM file of the authorities for their certificates. Empty: the\nauthorities of the system"`
	Stream      string   `toml:"stream" doc:"name of the stream, which the node makes if it does not exist. Each node or pair has\nits own"`
	Replicas    int      `toml:"replicas" doc:"servers that keep the new stream, 1 to 5. 0: three of a cluster, and one without a\ncluster"`
	MaxBytes    int64    `toml:"max_bytes" doc:"size of the new stream, bytes. A full stream takes no reports until a snapshot covers\nits entries; half of it may hold entries that one covers, for backups"`
}

func defaultJournal() Journal {
	return Journal{Kind: "file", Servers: []string{}, Stream: "bulkhead-journal", MaxBytes: 1 << 30}
}

// InStream reports whether the journal is in a stream as well.
func (j *Journal) InStream() bool { return j.Kind == "jetstream" }

// Complete returns the settings with the servers of the witness, if no others are named.
func (j Journal) Complete(s *Standby) Journal {
	if len(j.Servers) == 0 {
		j.Servers, j.Credentials, j.CA = s.Witness, s.WitnessCredentials, s.WitnessCA
	}
	return j
}

var streamName = regexp.MustCompile("^[A-Za-z0-9_-]{1,64}$")

func (c *checker) journal(j *Journal, s *Standby, n *Node, edge bool) {
	c.oneOf("journal.kind", j.Kind, "file", "jetstream")
	c.servers("journal.servers", "external", j.Servers)
	c.between("journal.replicas", float64(j.Replicas), 0, 5)
	c.between("journal.max_bytes", float64(j.MaxBytes), 64<<20, 1<<50)
	if !streamName.MatchString(j.Stream) {
		c.fail("journal.stream", "%.80q, want 1 to 64 letters, digits, \"-\" and \"_\"", j.Stream)
	}
	switch {
	case len(j.Servers) == 0 && (j.Credentials != "" || j.CA != ""):
		c.fail("journal.credentials", "credentials and ca without journal.servers")
	case !j.InStream() && len(j.Servers) > 0:
		c.fail("journal.servers", "servers, and journal.kind is \"file\"")
	case j.InStream() && len(j.Servers) == 0 && len(s.Witness) == 0:
		c.fail("journal.servers", "\"jetstream\" needs servers here, or in standby.witness")
	case j.InStream() && edge:
		c.fail("journal.kind", "an edge keeps no counts: set this on its upstream")
	case j.InStream() && n.Durability == "standby":
		c.fail("node.durability", "\"standby\" with journal.kind \"jetstream\": the stream has every report already")
	}
}
