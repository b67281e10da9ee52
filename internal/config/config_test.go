package config

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pelletier/go-toml/v2"
	"pgregory.net/rapid"
)

func TestReferenceIsTheDefault(t *testing.T) {
	var b bytes.Buffer
	if err := WriteReference(&b); err != nil {
		t.Fatal(err)
	}
	got, err := Parse(b.Bytes())
	if err != nil {
		t.Fatalf("the printed reference is refused: %v\n%s", err, b.String())
	}
	if want := Default(); !reflect.DeepEqual(got, want) {
		t.Errorf("reference means\n%+v\nwant the default\n%+v", got, want)
	}
}

// TestEveryKeyIsDocumented also checks that each key begins a line of its own
// in the reference.
func TestEveryKeyIsDocumented(t *testing.T) {
	var b bytes.Buffer
	if err := WriteReference(&b); err != nil {
		t.Fatal(err)
	}
	has := func(f reflect.StructField, line string) {
		t.Helper()
		if f.Tag.Get("doc") == "" || f.Tag.Get("toml") == "" {
			t.Errorf("%s lacks a doc or toml tag", f.Name)
		}
		if !strings.Contains(b.String(), "\n"+line) {
			t.Errorf("the reference has no line %q", line)
		}
	}
	tables := func(name string, f reflect.StructField) {
		has(f, "# [["+name+"]]\n")
		for k := range f.Type.Elem().NumField() {
			key := f.Type.Elem().Field(k)
			has(key, "# "+key.Tag.Get("toml")+" = ")
		}
	}
	v := reflect.TypeOf(Config{})
	for i := range v.NumField() {
		section := v.Field(i)
		name := section.Tag.Get("toml")
		if isTables(section) {
			tables(name, section)
			continue
		}
		has(section, "["+name+"]\n")
		for j := range section.Type.NumField() {
			key := section.Type.Field(j)
			if isTables(key) {
				tables(name+"."+key.Tag.Get("toml"), key)
				continue
			}
			has(key, key.Tag.Get("toml")+" = ")
		}
	}
}

// TestTablesOfTheReference checks that Parse knows the tables that the reference shows as
// comments.
func TestTablesOfTheReference(t *testing.T) {
	var b bytes.Buffer
	if err := WriteReference(&b); err != nil {
		t.Fatal(err)
	}
	// Tables that are commented out are uncommented; every other comment is dropped.
	var file strings.Builder
	in := false
	for line := range strings.Lines(b.String()) {
		in = strings.HasPrefix(line, "# [[") || in && strings.HasPrefix(line, "# ")
		if text, ok := strings.CutPrefix(line, "# "); in && ok {
			line = text
		}
		file.WriteString(line)
	}
	if !strings.Contains(file.String(), "\n[[dcc.clients]]\n") {
		t.Fatalf("no table in:\n%s", file.String())
	}
	// Their empty values may be out of range, but no key may be unknown.
	if _, err := Parse([]byte(file.String())); err != nil && strings.Contains(err.Error(), "unknown key") {
		t.Errorf("Parse = %v", err)
	}
}

func TestParse(t *testing.T) {
	cfg, err := Parse([]byte("[listen]\npyzor = \":24441\"\n[tally]\ngeneration = \"90m\"\nkeep = 3\n"))
	if err != nil {
		t.Fatal(err)
	}
	if cfg.Listen != (Listen{Pyzor: ":24441"}) {
		t.Errorf("listen = %+v, want pyzor alone", cfg.Listen)
	}
	if got := time.Duration(cfg.Tally.Generation); got != 90*time.Minute || cfg.Tally.Keep != 3 {
		t.Errorf("tally = %v, %d, want 1h30m, 3", got, cfg.Tally.Keep)
	}
	if want := Default().Blocklist; cfg.Blocklist != want {
		t.Errorf("absent section = %+v, want the default %+v", cfg.Blocklist, want)
	}
}

// TestParseEditors checks files as editors of other systems write them: with a byte order mark, and with CRLF.
func TestParseEditors(t *testing.T) {
	for _, file := range []string{"\ufeff[tally]\nkeep = 3\n", "[tally]\r\nkeep = 3\r\n",
		"\ufeff[tally]\r\n\tkeep\t=\t3\r\n"} {
		if cfg, err := Parse([]byte(file)); err != nil || cfg.Tally.Keep != 3 {
			t.Errorf("%q: %v", file, err)
		}
	}
}

func TestParseRefuses(t *testing.T) {
	tests := []struct {
		name, file string
		want       []string // texts of the errors, in their order
	}{
		{"unknown key", "[node]\nname = \"a\"\ncolour = 3\n", []string{"config: line 3: node.colour: unknown key"}},
		{"unknown section", "\n[wings]\nspan = 3\n", []string{"line 2: wings: unknown key"}},
		{"meant in the same table", "[listen]\nhtpp = \"127.0.0.1:8420\"\n",
			[]string{"line 2: listen.htpp: unknown key; did you mean listen.http?"}},
		{"meant in another table", "[fuzzy]\nthreshold = 3\n",
			[]string{"line 2: fuzzy.threshold: unknown key; did you mean tally.threshold?"}},
		{"meant another table", "[lisen]\nhttp = \"127.0.0.1:8420\"\n", []string{"lisen: unknown key; did you mean listen?"}},
		{"a list of tables", "[[ratelimit]]\nname = \"a\"\nperoid = \"1h\"\n",
			[]string{"line 3: ratelimit.peroid: unknown key; did you mean ratelimit.period?"}},
		{"mistakes of two kinds", "[node]\ncolour = 3\n[trust]\nanonymous = 2.0\n[http]\nx = 1\n",
			[]string{"line 2: node.colour: unknown key\n", "line 4: trust.anonymous: 2 is not between 0 and 1\n",
				"line 6: http.x"}},
		{"two unknown keys", "[node]\na = 1\nb = 2\n", []string{"line 2: node.a", "line 3: node.b"}},
		{"not TOML", "[node\n", []string{"config: line 1: "}},
		{"key twice", "[node]\nname = \"a\"\nname = \"b\"\n", []string{"line 3: "}},
		{"wrong type", "[tally]\nkeep = \"seven\"\n", []string{"line 2: "}},
		{"not a duration", "[tally]\ngeneration = \"a day\"\n", []string{`line 2: `}},
		{"bare port", "# doors\n[listen]\npyzor = \"24441\"\n",
			[]string{`config: line 3: listen.pyzor: "24441" is not host:port`}},
		{"port too large", "[listen]\nhttp = \":70000\"\n", []string{`":70000": port is not a number from 0 to 65535`}},
		{"socket where none is", "[listen]\nhttp = \"unix:/run/x\"\n", []string{"no unix socket"}},
		{"address twice", "[listen]\nhttp = \"127.0.0.1:8420\"\nmilter = \"127.0.0.1:8420\"\n",
			[]string{"config: line 3: listen.milter: listen.http listens at this address already"}},
		{"address twice on all interfaces", "[listen]\nhttp = \"127.0.0.1:8420\"\nrazor2 = \":8420\"\n" +
			"fuzzy = \"[::]:8420\"\ndcc = \"127.0.0.1:8420\"\n",
			[]string{"line 3: listen.razor2: listen.http", "line 4: listen.fuzzy: listen.dcc",
				"line 4: listen.fuzzy: listen.http"}},
		{"socket twice", "[listen]\nmilter = \"unix:/run/x\"\npolicy = \"unix:/run/x\"\n",
			[]string{"line 3: listen.policy: listen.milter listens"}},
		{"addresses of hub and standby", "[listen]\nhttp = \":8420\"\n[mesh]\nmode = \"hub\"\nlisten = \":8420\"\n" +
			"[standby]\nlisten = \"127.0.0.1:8420\"\n",
			[]string{"line 5: mesh.listen: listen.http", "line 7: standby.listen: listen.http"}},
		{"path too long for a socket", "[listen]\nmilter = \"unix:/" + strings.Repeat("x", 107) + "\"\n",
			[]string{"path of 108 bytes, limit 107"}},
		{"bytes below the least", "[tally]\nmemory_bytes = 5\n",
			[]string{"5 is not between 1048576 and 1125899906842624"}},
		{"relative socket", "[listen]\nmilter = \"unix:run/x\"\n", []string{"starts with /"}},
		{"durability", "[node]\ndurability = \"often\"\n",
			[]string{`line 2: node.durability: "often" is none of ["always" "relaxed" "standby"]`}},
		{"weight above one", "[trust]\nanonymous = 1.5\n", []string{"trust.anonymous: 1.5 is not between 0 and 1"}},
		{"weight that is no number", "[trust]\nanonymous = nan\n", []string{"trust.anonymous: NaN is not between 0 and 1"}},
		{"no error at all", "[tally]\nerror = 0.0\n", []string{"tally.error: 0 is not between"}},
		{"certain error", "[blocklist]\nerror = 1.0\n", []string{"blocklist.error: 1 is not between"}},
		{"infinite rate", "[limits]\nrequests_per_second = inf\n", []string{"+Inf is not between"}},
		{"more signatures than are looked up", "[limits]\nsignatures_per_message = 1025\n",
			[]string{"limits.signatures_per_message: 1025 is not between 1 and 1024"}},
		{"generation of no length", "[tally]\ngeneration = \"0s\"\n", []string{"tally.generation: 0s is not between 1m and"}},
		{"threshold above many", "[tally]\nthreshold = 16777216\n", []string{"is not between 1 and"}},
		{"threshold above 32 bits", "[tally]\nthreshold = 4294967296\n", []string{"line 2: "}},
		{"network with host bits", "[whitelist]\nnetworks = [\"192.0.2.1/24\"]\n", []string{`write "192.0.2.0/24"`}},
		{"address", "[whitelist]\nsenders = [\"nobody\"]\n",
			[]string{`line 2: whitelist.senders: "nobody" is not an address`}},
		{"domain that would match nothing", "[whitelist]\ndomains = [\"*.example.com\"]\n",
			[]string{`line 2: whitelist.domains: "*.example.com" is not a name`}},
		{"list of the milter that is none",
			"[milter]\nlists = [\"bad\", \"wrose\"]\n[[lists.list]]\nname = \"bad\"\npath = \"bad.list\"\n",
			[]string{`line 2: milter.lists: no list is called "wrose"`}},
		{"domain", "[whitelist]\ndomains = [\"@example.com\"]\n", []string{`"@example.com" is not a name`}},
		{"misspelt prefix", "[whitelist]\ndomains = [\"forgable:example.com\"]\n",
			[]string{`"forgable:example.com" is not a name`}},
		{"prefix where nothing is forged", "[whitelist]\ndkim = [\"forgeable:example.com\"]\n",
			[]string{`whitelist.dkim: "forgeable:example.com" is not a name`}},
		{"signature", "[whitelist]\nsignatures = [\"pyzor/digest:zz\"]\n", []string{"whitelist.signatures: "}},
		{"certificate without key", "[http]\ntls_cert = \"a.pem\"\n", []string{"line 2: http.tls_cert"}},
		{"shingle algorithm", "[fuzzy]\nalgorithm = \"md5\"\n", []string{`line 2: fuzzy.algorithm: "md5" is none of`}},
		{"words of a rule", "[fuzzy]\nmin_length = 0\n", []string{"line 2: fuzzy.min_length: 0 is not between 1 and"}},
		{"bytes of a rule", "[fuzzy]\nmin_bytes = -1\n", []string{"line 2: fuzzy.min_bytes: -1 is not between 0 and"}},
		{"encryption without a key", "[fuzzy]\nencrypted_only = true\n", []string{"fuzzy.encrypted_only: needs one of"}},
		{"DCC id of a mortal", "[[dcc.clients]]\nid = 99\npassword = \"x\"\n",
			[]string{"line 2: dcc.clients.id: 99 is not between 100 and 16777215"}},
		{"DCC id twice", "[[dcc.clients]]\nid = 100\npassword = \"x\"\n[[dcc.clients]]\nid = 100\npassword = \"y\"\n",
			[]string{"line 5: dcc.clients.id: 100 is there twice"}},
		{"DCC password", "[[dcc.clients]]\nid = 100\npassword = \"123456789012345678901234567890123\"\n",
			[]string{"line 3: dcc.clients.password: a password of 33 bytes, want 1 to 32"}},
		{"first of two rules", "[[ratelimit]]\nlimit = 0\nperiod = \"1h\"\n[[ratelimit]]\nlimit = 5\nperiod = \"1h\"\n",
			[]string{"line 2: ratelimit.limit: 0 is no limit"}},
		{"absent keys of a rule", "\n[[ratelimit]]\nmode = \"odd\"\n",
			[]string{"line 2: ratelimit.period: 0s is", "line 2: ratelimit.limit: 0 is no limit",
				`line 3: ratelimit.mode: "odd" is none of`}},
		{"inline rules", "ratelimit = [{ limit = 1, period = \"1h\" },\n{ limit = 1, period = \"1s\", mode = \"odd\" }]\n",
			[]string{"line 1: ratelimit.mode: "}},
		{"action of a policy",
			"[milter]\nspam = \"reject\"\n[[milter.policy]]\ndomain = \"a.example\"\nbulk = \"bounce\"\n" +
				"[[milter.policy]]\nbulk = \"none\"\nconfidence = 101\n",
			[]string{`line 5: milter.policy.bulk: "bounce" is none of`, "line 6: milter.policy.domain: is empty",
				"line 8: milter.policy.confidence: 101 is"}},
		{"no action", "[milter]\nspam = \"\"\n", []string{`line 2: milter.spam: "" is none of`}},
		{"lists",
			"[[lists.list]]\nname = \"a\"\npath = \"/a\"\n[[lists.list]]\nname = \"a\"\n[[lists.list]]\npath = \"/b\"\n",
			[]string{`line 4: lists.list.path: is empty, of list "a"`,
				`line 5: lists.list.name: "a" is the name of a list above`, "line 6: lists.list.name: is empty"}},
		{"zones", "[[dnsbl.zone]]\nname = \"z\"\nform = \"ip\"\nlist = \"a\"\ncode = \"two\"\n",
			[]string{`line 4: dnsbl.zone.list: no list is called "a"`, `line 5: dnsbl.zone.code: "two" is not an address`}},
		{"combined zones", "[[lists.list]]\nname = \"a\"\npath = \"/a\"\n[[dnsbl.zone]]\nform = \"ip\"\n" +
			"lists = [\"a :3:x\", \"b :4\", \"a\"]\n[[dnsbl.zone]]\nform = \"ip\"\nlist = \"a\"\nlists = [\"c\"]\n" +
			"[[dnsbl.zone]]\nform = \"domain\"\nlive = true\nlists = [\"a\"]\n[[dnsbl.zone]]\nform = \"ip\"\n",
			[]string{`line 6: dnsbl.zone.lists: no list is called "b"`, `line 6: dnsbl.zone.lists: "a" is given twice`,
				`line 9: dnsbl.zone.list: "a": the zone also has lists`, `line 10: dnsbl.zone.lists: no list is called "c"`,
				"line 14: dnsbl.zone.lists: a live zone has no list", `line 15: dnsbl.zone.list: no list is called ""`}},
		{"keys of rspamd", "[[fuzzy.keys]]\nsecret = \"x\"\nexpires = \"soon\"\nrequests_per_second = -1\nburst = -1\n",
			[]string{"line 2: fuzzy.keys.secret: a secret of 1 characters, want 52",
				`line 3: fuzzy.keys.expires: "soon" is not a day`, "line 4: fuzzy.keys.requests_per_second: -1 is",
				"line 5: fuzzy.keys.burst: -1, want 0 or more"}},
		{"greylist", "[dccifd]\nembargo = \"10m\"\nwindow = \"10m\"\n",
			[]string{"line 3: dccifd.window: 10m is not longer than the embargo, 10m: no sender"}},
		{"inline table", "trust = { anonymous = 2.0 }\n", []string{"line 1: trust.anonymous"}},
		{"dotted key", "node.name = \"a\"\ntally.keep = 0\n", []string{"line 2: tally.keep: 0 is not between 1 and 64"}},
		{"several, in the order of lines", "[trust]\nanonymous = 2.0\n[node]\nlog_level = \"loud\"\n",
			[]string{"line 2: trust.anonymous", "line 4: node.log_level"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			cfg, err := Parse([]byte(tt.file))
			if err == nil || cfg != nil {
				t.Fatalf("Parse(%q) = %v, %v; want no result and an error", tt.file, cfg, err)
			}
			var e *Error
			if !errors.As(err, &e) {
				t.Errorf("Parse(%q) = %T, want an *Error inside", tt.file, err)
			}
			rest := err.Error()
			for _, want := range tt.want {
				_, after, ok := strings.Cut(rest, want)
				if !ok {
					t.Fatalf("Parse(%q) = %q, want %q in it, in order", tt.file, err, want)
				}
				rest = after
			}
		})
	}
}

func TestLoad(t *testing.T) {
	dir := t.TempDir()
	if _, err := Load(filepath.Join(dir, "absent.toml")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("Load(absent) = %v, want ErrNotExist", err)
	}
	path := filepath.Join(dir, "bad.toml")
	if err := os.WriteFile(path, []byte("[node]\nx = 1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Load(path); err == nil || !strings.HasPrefix(err.Error(), path+": config: line 2: ") {
		t.Errorf("Load(bad) = %v, want the path and line 2", err)
	}
	long := filepath.Join(dir, "long.toml")
	if err := os.WriteFile(long, bytes.Repeat([]byte("#\n"), maxFile), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Load(long); err == nil || !strings.Contains(err.Error(), "longer than") {
		t.Errorf("Load(long) = %v, want a refusal of its size", err)
	}
}

func TestChanged(t *testing.T) {
	is := Default()
	is.Listen.HTTP = ":8420"
	is.Trust.Anonymous = 0.2
	is.Whitelist.Domains = []string{"example.com"}
	reloadable, restart := Changed(Default(), is)
	if want := []string{"trust.anonymous", "whitelist.domains"}; !slices.Equal(reloadable, want) {
		t.Errorf("reloadable = %q, want %q", reloadable, want)
	}
	if want := []string{"listen.http"}; !slices.Equal(restart, want) {
		t.Errorf("restart = %q, want %q", restart, want)
	}
}

func TestReloaded(t *testing.T) {
	running, file := Default(), Default()
	file.Node.Durability = "relaxed"
	file.Tally.Threshold = 7
	file.Whitelist.Domains = []string{"example.com"}
	got := Reloaded(running, file)
	if got.Node.Durability != "always" || got.Tally.Threshold != 7 ||
		!slices.Equal(got.Whitelist.Domains, []string{"example.com"}) {
		t.Errorf("Reloaded = %+v", got)
	}
	if !reflect.DeepEqual(running, Default()) {
		t.Errorf("the running configuration was changed: %+v", running)
	}
	if reloadable, restart := Changed(got, file); reloadable != nil ||
		!slices.Equal(restart, []string{"node.durability"}) {
		t.Errorf("what is left to take over = %q, %q; want node.durability at the restart", reloadable, restart)
	}
}

// FuzzParse checks that no file makes Parse panic, that no error comes with a result, that what it
// accepts is in range, and that keys and types are reported as wrong where the TOML library, which
// reports one such mistake, refuses them.
func FuzzParse(f *testing.F) {
	var b bytes.Buffer
	if err := WriteReference(&b); err != nil {
		f.Fatal(err)
	}
	f.Add(b.Bytes())
	f.Add([]byte("[listen]\nhttp = \":8420\"\n"))
	f.Add([]byte("trust = { anonymous = 0.5, \"loopback\" = 1e0 }\n[[limits]]\n"))
	f.Add([]byte("[tally]\nkeep = [\n3]\n[tally]\nmemory = 0x1f\ngeneration = true\n[[node]]\nname.a = 1_0\n"))
	f.Add([]byte("[a.b.c]\n\"\\u0000\" = '''\n'''\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		cfg, err := Parse(data)
		if (cfg == nil) == (err == nil) {
			t.Fatalf("Parse = %v, %v: want a result or an error", cfg, err)
		}
		if cfg != nil && (cfg.Tally.Keep < 1 || !(cfg.Trust.Anonymous <= 1) || cfg.HTTP.MaxBody < 1024) {
			t.Errorf("Parse(%q) lets a value out of range through", data)
		}
		dec := toml.NewDecoder(bytes.NewReader(data))
		dec.DisallowUnknownFields()
		refused := dec.Decode(fresh())
		if s := look(data); refused == nil && (s.syntax != nil || len(s.unknown)+len(s.wrong) > 0) ||
			refused != nil && err == nil {
			t.Errorf("%q: the library says %v; we %v, %v", data, refused, err, s.syntax)
		}
	})
}

// TestInspect checks that a configuration is returned for further checks if, and only if, defaults
// can replace the mistakes of its file.
func TestInspect(t *testing.T) {
	for _, tt := range []struct {
		text      string
		cfg, fail bool
	}{
		{"[node]\nname = \"a\"\n", true, false},
		{"[node]\nname = \"a\"\ncolour = 3\n", true, true},
		{"[node]\nname = \"a\"\ndurability = \"no\"\n", true, true},
		{"[node]\nname = \"a\"\ncheckpoint = 3\n", true, true},
		{"[node]\nname = \"a\"\n[[ratelimit]]\nlimit = \"x\"\n", false, true},
		{"[node]\nname = \"a\"\n[dccifd]\nwindow = \"5m\"\nembargo = \"1h\"\n", true, true},
		{"[node]\nname = \"a\"\n[lists\n", false, true},
	} {
		file := filepath.Join(t.TempDir(), "a.toml")
		if err := os.WriteFile(file, []byte(tt.text), 0o600); err != nil {
			t.Fatal(err)
		}
		cfg, err := Inspect(file)
		if (cfg != nil) != tt.cfg || (err != nil) != tt.fail || cfg != nil && cfg.Node.Name != "a" {
			t.Errorf("%q: %v, %v", tt.text, cfg, err)
		}
		if cfg, err := Load(file); (cfg != nil) == tt.fail || (err != nil) != tt.fail {
			t.Errorf("Load %q: %v, %v", tt.text, cfg, err)
		}
	}
}

// TestDistance compares the distance with its recursive definition.
func TestDistance(t *testing.T) {
	var slow func(a, b string) int
	slow = func(a, b string) int {
		if a == "" || b == "" {
			return len(a) + len(b)
		}
		change := slow(a[1:], b[1:])
		if a[0] != b[0] {
			change++
		}
		return min(change, slow(a[1:], b)+1, slow(a, b[1:])+1)
	}
	rapid.Check(t, func(t *rapid.T) {
		word := rapid.StringMatching(`[abc]{0,6}`)
		a, b := word.Draw(t, "a"), word.Draw(t, "b")
		if got, want := distance(a, b), slow(a, b); got != want {
			t.Fatalf("%q and %q: %d, want %d", a, b, got, want)
		}
	})
}

func TestReachable(t *testing.T) {
	for listen, want := range map[string]string{
		"0.0.0.0:25": "127.0.0.1:25", "[::]:25": "[::1]:25", ":25": "127.0.0.1:25", "[::ffff:0.0.0.0]:25": "127.0.0.1:25",
		"192.0.2.1:25": "192.0.2.1:25", "mx.example.com:25": "mx.example.com:25",
		"/run/x": "/run/x", "unix:/run/x": "unix:/run/x", "": "",
	} {
		if got := Reachable(listen); got != want {
			t.Errorf("%s: %s, want %s", listen, got, want)
		}
	}
}
