package config

import "time"

// Default returns the configuration of a node without a file: every front door listens on its
// standard port of the loopback address. [Parse] gives absent keys the same values, except that
// every absent door is off.
func Default() *Config {
	return &Config{
		Node: Node{Durability: "always", Checkpoint: Duration(15 * time.Minute), LogLevel: "info", LogFormat: "text"},
		Listen: Listen{
			HTTP:        "127.0.0.1:8420",
			Razor2:      "127.0.0.1:2703",
			Pyzor:       "127.0.0.1:24441",
			PyzorHelper: "127.0.0.1:5953",
			RazorHelper: "127.0.0.1:11342",
			DCC:         "127.0.0.1:6277",
			Dccifd:      "127.0.0.1:10045",
			Fuzzy:       "127.0.0.1:11335",
			Milter:      "127.0.0.1:8891",
			Policy:      "127.0.0.1:10040",
			DNSBL:       "127.0.0.1:5300",
		},
		HTTP: HTTP{
			AnonymousCheck:  "loopback",
			AnonymousReport: "loopback",
			TrustedProxies:  []string{},
			MaxBody:         32 << 20,
			ReadTimeout:     Duration(30 * time.Second),
			IdleTimeout:     Duration(2 * time.Minute),
		},
		Tally: Tally{
			Generation: Duration(24 * time.Hour),
			Keep:       7,
			Capacity:   1_000_000,
			Error:      1e-3,
			Threshold:  20,
			NearMatch:  2,
		},
		Blocklist: Blocklist{
			Generation: Duration(168 * time.Hour),
			Keep:       8,
			Capacity:   250_000,
			Error:      1e-5,
			Order:      "spam-first",
		},
		Memory:    Memory{Bytes: 64 << 20, Keep: Duration(7 * 24 * time.Hour)},
		Learn:     Learn{Enabled: true, Memory: 64 << 20},
		Judgement: Judgement{WantedLost: 2},
		History:   History{Bytes: 256 << 20, Days: 7, Audit: 8 << 20},
		Trust: Trust{
			Promotion:      1,
			Loopback:       1,
			Anonymous:      0,
			SelfRegistered: 0.05,
			Ceiling:        0.8,
			Half:           20,
			Accounts:       20_000,
			PerNetwork:     64,
			IdleDays:       30,
		},
		Limits: Limits{
			Rate:          500,
			Burst:         1000,
			Connections:   4096,
			MaxSignatures: 1024,
			MaxBatch:      1024,
		},
		Razor2:    defaultRazor2(),
		Pyzor:     defaultPyzor(),
		DCC:       defaultDCC(),
		Dccifd:    defaultDccifd(),
		Fuzzy:     defaultFuzzy(),
		Milter:    defaultMilter(),
		Policy:    Policy{OnFault: "dunno", Checkpoint: Duration(time.Minute)},
		Lists:     Lists{Watch: Duration(5 * time.Second), MaxBytes: 4 << 30},
		Mesh:      defaultMesh(),
		Aggregate: Aggregate{Members: []string{}, Servers: []string{}},
		Upstream:  defaultUpstream(),
		Shards:    defaultShards(),
		Journal:   defaultJournal(),
		Standby:   defaultStandby(),
		Whitelist: Whitelist{
			AuthResults: []string{}, Senders: []string{}, Domains: []string{}, Networks: []string{},
			ListIDs: []string{}, DKIM: []string{}, Signatures: []string{},
		},
	}
}
