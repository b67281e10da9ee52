package config

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// DCC is the section [dcc].
type DCC struct {
	ServerID       int         `toml:"server_id" doc:"id of this server, 100 to 32767"`
	Brand          string      `toml:"brand" doc:"name in the header field X-DCC-brand-Metrics: letters and digits"`
	Anonymous      []string    `toml:"anonymous" doc:"networks whose clients are served without a client-id"`
	AnonymousRate  float64     `toml:"anonymous_rate" doc:"requests per second of one anonymous client elsewhere than on loopback; 0: no limit"`
	AnonymousTotal float64     `toml:"anonymous_total" doc:"requests per second of all of them together; 0: no limit"`
	Keep           []string    `toml:"keep" doc:"types of the checksums to count"`
	Whitelist      string      `toml:"whitelist" doc:"file of checksums that are ok, ok2 or many whatever was counted; read again when\nit changes. Empty: none"`
	Clients        []DCCClient `toml:"clients" doc:"client-ids (32768 and above) and server-ids (below, which may also delete)"`
}

// DCCClient is one table of [[dcc.clients]].
type DCCClient struct {
	ID        uint32 `toml:"id" doc:"100 to 16777215"`
	Password  string `toml:"password" secret:"yes" doc:"1 to 32 bytes"`
	Password2 string `toml:"password2" secret:"yes" doc:"a second password, also accepted. Empty: none"`
	Account   string `toml:"account" doc:"account whose weight its spam reports have. Empty: the weight of an anonymous reporter"`
}

// Dccifd is the section [dccifd].
type Dccifd struct {
	Host       string   `toml:"host" doc:"name of this server in X-DCC headers. Empty: the host name"`
	Rules      string   `toml:"rules" doc:"\"2\": show the Fuz1 that clients of DCC 2 compute; \"1\": that of DCC 1.3.\nBoth are counted"`
	Words      string   `toml:"words" doc:"file with the word tables of Fuz2. Empty: Fuz2 is not computed"`
	Substitute string   `toml:"substitute" doc:"header field from which the substitute checksum is made. Empty: none"`
	Thresholds []string `toml:"thresholds" doc:"totals at which mail is bulk and refused: \"type,count\" with a number, \"many\" or\n\"never\"; the type CMN stands for Body, Fuz1 and Fuz2, for example [\"CMN,many\"]"`
	Whiteclnt  string   `toml:"whiteclnt" doc:"whitelist for all users; read again when it changes. Empty: none"`
	Userdirs   string   `toml:"userdirs" doc:"folder that holds USER/whiteclnt for users with lists of their own. Empty: none"`
	Greylist   bool     `toml:"greylist" doc:"delay unknown senders"`
	Embargo    Duration `toml:"embargo" doc:"how long an unknown sender is delayed"`
	Window     Duration `toml:"window" doc:"how long after the first attempt the second may come"`
	White      Duration `toml:"white" doc:"how long a sender that came again is remembered"`
	MaxMessage int64    `toml:"max_message_bytes" doc:"largest message, bytes"`
	Verify     bool     `toml:"verify" doc:"verify DKIM signatures and the envelope's sender (SPF); the DNS is asked as\nresolver of [milter] says, and waited for one second at most. false: only\nauthentication_results of [whitelist] say who sent a message"`
}

// Fuzzy is the section [fuzzy].
type Fuzzy struct {
	EncryptedOnly bool       `toml:"encrypted_only" doc:"refuse requests that are not encrypted"`
	ReadOnly      bool       `toml:"read_only" doc:"refuse all writes and deletes"`
	UpdateFrom    []string   `toml:"update_from" doc:"networks that may write and delete without a key that may. Addresses of\ndatagrams can be forged: prefer keys"`
	Blocked       []string   `toml:"blocked" doc:"networks that get no answer"`
	SpamFlags     []uint8    `toml:"spam_flags" doc:"flags whose writes count as spam votes for all front doors"`
	HamFlags      []uint8    `toml:"ham_flags" doc:"flags whose writes count as ham votes"`
	HashKey       string     `toml:"hash_key" secret:"yes" doc:"fuzzy_key of the rule for which the node hashes whole messages itself, so that\nwhat is reported elsewhere is known to rspamd. Empty: rspamd's default"`
	ShinglesKey   string     `toml:"shingles_key" secret:"yes" doc:"fuzzy_shingles_key of that rule. Empty: rspamd's default"`
	Algorithm     string     `toml:"algorithm" doc:"algorithm of that rule: \"mumhash\", \"xxhash\" or \"siphash\""`
	MinLength     int        `toml:"min_length" doc:"min_length of that rule, words"`
	MinBytes      int        `toml:"min_bytes" doc:"min_bytes of that rule; 0: no limit"`
	StopWords     string     `toml:"stop_words" doc:"file with rspamd's stop words, read at the start if it is there, and the models of\nlanguages beside it: with them the node recognises languages, and so stems words, as\nrspamd does. Empty: none"`
	Keys          []FuzzyKey `toml:"keys" doc:"key pairs that requests may be encrypted to"`
}

// FuzzyKey is one table of [[fuzzy.keys]].
type FuzzyKey struct {
	Secret  string  `toml:"secret" secret:"yes" doc:"secret key as \"rspamadm keypair\" prints it"`
	Name    string  `toml:"name" doc:"name in logs"`
	Account string  `toml:"account" doc:"account whose weight updates with this key have. Empty: the weight of an anonymous reporter"`
	Update  bool    `toml:"update" doc:"clients of this key may write and delete"`
	Expires string  `toml:"expires" doc:"last day of its use, \"2027-12-31\". Empty: none"`
	Hidden  []uint8 `toml:"hidden_flags" doc:"flags that are not shown to clients with this key"`
	Rate    float64 `toml:"requests_per_second" doc:"requests per second of all clients with this key together; 0: no limit"`
	Burst   int     `toml:"burst" doc:"requests at once before the rate applies"`
}

func defaultDCC() DCC {
	return DCC{
		ServerID: 101, Brand: "bulkhead", Anonymous: []string{"127.0.0.0/8", "::1"}, AnonymousRate: 50, AnonymousTotal: 2000,
		Keep: []string{"Body", "Fuz1", "Fuz2"}, Clients: []DCCClient{},
	}
}

func defaultDccifd() Dccifd {
	return Dccifd{
		Rules: "2", Thresholds: []string{}, Embargo: Duration(270 * time.Second), Window: Duration(7 * 24 * time.Hour),
		White: Duration(63 * 24 * time.Hour), MaxMessage: 32 << 20, Verify: true,
	}
}

func defaultFuzzy() Fuzzy {
	return Fuzzy{
		UpdateFrom: []string{"127.0.0.0/8", "::1"}, Blocked: []string{}, SpamFlags: []uint8{1, 11}, HamFlags: []uint8{3, 13},
		Algorithm: "mumhash", MinLength: 64, MinBytes: 1024, StopWords: "/usr/share/rspamd/languages/stop_words",
		Keys: []FuzzyKey{},
	}
}

// Limits of DCC's protocol.
const (
	maxDCCID       = 16777215
	maxDCCPassword = 32 // bytes
)

var dccTypes = []string{"IP", "env_From", "From", "substitute", "Message-ID", "Received", "Body", "Fuz1", "Fuz2"}

func (c *checker) dcc(d *DCC) {
	c.between("dcc.server_id", float64(d.ServerID), 100, 32767)
	if n := len(d.Brand); n < 1 || n > 32 || strings.ContainsFunc(d.Brand, notAlphanumeric) {
		c.fail("dcc.brand", "%.40q is not 1 to 32 letters and digits", d.Brand)
	}
	c.networks("dcc.anonymous", d.Anonymous)
	c.between("dcc.anonymous_rate", d.AnonymousRate, 0, 1e9)
	c.between("dcc.anonymous_total", d.AnonymousTotal, 0, 1e9)
	for _, t := range d.Keep {
		c.oneOf("dcc.keep", t, dccTypes...)
	}
	seen := make(map[uint32]bool)
	for i, cl := range d.Clients {
		table := nth("dcc.clients", i)
		c.between(table+".id", float64(cl.ID), 100, maxDCCID)
		if seen[cl.ID] {
			c.fail(table+".id", "%d is there twice", cl.ID)
		}
		if n := len(cl.Password); n < 1 || n > maxDCCPassword {
			c.fail(table+".password", "a password of %d bytes, want 1 to %d", n, maxDCCPassword)
		}
		if n := len(cl.Password2); n > maxDCCPassword {
			c.fail(table+".password2", "a password of %d bytes, limit %d", n, maxDCCPassword)
		}
		seen[cl.ID] = true
	}
}

func notAlphanumeric(r rune) bool {
	return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9')
}

func (c *checker) dccifd(d *Dccifd) {
	c.oneOf("dccifd.rules", d.Rules, "1", "2")
	for _, text := range d.Thresholds {
		t, n, _ := strings.Cut(text, ",")
		c.oneOf("dccifd.thresholds", t, append([]string{"CMN"}, dccTypes...)...)
		if v, err := strconv.ParseUint(n, 10, 24); n != "many" && n != "never" && (err != nil || v == 0) {
			c.fail("dccifd.thresholds", "%s: %.40q is not a number from 1 to 16777215, \"many\" or \"never\"", t, n)
		}
	}
	if strings.ContainsAny(d.Host, " \t\r\n;") || len(d.Host) > 255 {
		c.fail("dccifd.host", "%.80q is not a host name", d.Host)
	}
	c.duration("dccifd.embargo", d.Embargo, time.Second, 24*time.Hour)
	c.duration("dccifd.window", d.Window, time.Minute, 366*24*time.Hour)
	if d.Window <= d.Embargo {
		c.fail("dccifd.window", "%v is not longer than the embargo, %v: no sender could return in time", d.Window, d.Embargo)
	}
	c.duration("dccifd.white", d.White, time.Minute, 366*24*time.Hour)
	c.between("dccifd.max_message_bytes", float64(d.MaxMessage), 1024, 1<<30)
}

func (c *checker) fuzzy(f *Fuzzy) {
	c.networks("fuzzy.update_from", f.UpdateFrom)
	c.networks("fuzzy.blocked", f.Blocked)
	c.oneOf("fuzzy.algorithm", f.Algorithm, "mumhash", "xxhash", "siphash")
	c.between("fuzzy.min_length", float64(f.MinLength), 1, 10_000)
	c.between("fuzzy.min_bytes", float64(f.MinBytes), 0, 1<<30)
	if f.EncryptedOnly && len(f.Keys) == 0 {
		c.fail("fuzzy.encrypted_only", "needs one of [[fuzzy.keys]]")
	}
	for i, k := range f.Keys {
		table := nth("fuzzy.keys", i)
		if n := len(k.Secret); n != 52 {
			c.fail(table+".secret", "a secret of %d characters, want 52", n)
		}
		if _, err := k.ExpiresAt(); err != nil {
			c.fail(table+".expires", "%v", err)
		}
		c.between(table+".requests_per_second", k.Rate, 0, 1e9)
		if k.Burst < 0 {
			c.fail(table+".burst", "%d, want 0 or more", k.Burst)
		}
	}
}

// ExpiresAt returns the end of the last day, UTC; the zero Time for none.
func (k *FuzzyKey) ExpiresAt() (time.Time, error) {
	if k.Expires == "" {
		return time.Time{}, nil
	}
	t, err := time.Parse(time.DateOnly, k.Expires)
	if err != nil {
		return time.Time{}, fmt.Errorf("%.40q is not a day like \"2027-12-31\"", k.Expires)
	}
	return t.Add(24 * time.Hour), nil
}
