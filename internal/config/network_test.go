package config

import (
	"net/netip"
	"testing"
)

// TestParseNetworkMapped checks that IPv4 addresses in the form that IPv6 sockets show are read as
// IPv4, because clients are compared in that form.
func TestParseNetworkMapped(t *testing.T) {
	for text, want := range map[string]string{
		"::ffff:192.0.2.0/120": "192.0.2.0/24", "::ffff:192.0.2.7": "192.0.2.7/32", "::ffff:0:0/96": "0.0.0.0/0",
		"::/0": "::/0",
	} {
		if p, err := ParseNetwork(text); err != nil || p != netip.MustParsePrefix(want) {
			t.Errorf("ParseNetwork(%q) = %v, %v, want %s", text, p, err, want)
		}
	}
	if p, err := ParseNetwork("::ffff:192.0.2.7/120"); err == nil {
		t.Errorf("host bits: %v", p)
	}
}

// TestRekeyEvery: secrets change only as often as nodes can keep up with, and with generations
// of the blocklist.
func TestRekeyEvery(t *testing.T) {
	const hub = "[mesh]\nmode = \"hub\"\n"
	for text, ok := range map[string]bool{
		hub + "rekey_every = \"672h\"\n": true, // four weeks
		hub + "rekey_every = \"840h\"\n": true,
		hub + "rekey_every = \"0s\"\n":   true,
		hub + "rekey_every = \"672h\"\n[aggregate]\nmembers = [\"*\"]\nservers = [\"above.example.com:8421\"]\n": false,
		hub + "rekey_every = \"504h\"\n":                                            false, // three weeks of eight
		hub + "rekey_every = \"700h\"\n":                                            false, // no weeks
		hub + "rekey_every = \"-672h\"\n":                                           false,
		hub + "rekey_every = \"9408h\"\n":                                           false, // 56 weeks
		"[mesh]\nrekey_every = \"672h\"\n":                                          false, // no hub
		hub + "rekey_every = \"168h\"\n[blocklist]\nkeep = 2\n":                     true,
		hub + "rekey_every = \"168h\"\n[blocklist]\nkeep = 2\n[tally]\nkeep = 15\n": false,
		hub + "rekey_every = \"24h\"\n[blocklist]\nkeep = 2\n":                      false,
		"[mesh]\nshare_counts_from = 15\n":                                          true,
		"[mesh]\nshare_counts_from = 1\n":                                           true,
		"[mesh]\nshare_counts_from = 0\n":                                           false,
		"[mesh]\nshare_counts_from = 16\n":                                          false,
		"[mesh]\nshare_votes_from = 15\n":                                           true,
		"[mesh]\nshare_votes_from = 1\n":                                            true,
		"[mesh]\nshare_votes_from = 0\n":                                            false,
		"[mesh]\nshare_votes_from = 16\n":                                           false,
	} {
		if _, err := Parse([]byte(text)); (err == nil) != ok {
			t.Errorf("%s: %v", text, err)
		}
	}
	if got := Default().Mesh; got.ShareCounts != 2 || got.ShareVotes != 1 || got.RekeyEvery != 0 {
		t.Errorf("by default %+v", got)
	}
}
