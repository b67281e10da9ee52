// Package config reads the one configuration file of a node: TOML into [Config], strictly. An
// unknown key, a value out of range and a wrong type are errors that name the line. A file with a
// mistake is not applied in part.
//
// The tags of the structs in this package are the only descriptions of the keys;
// [WriteReference] prints them with the defaults of [Default].
//
//	cfg, err := config.Load("bulkhead.toml")
//	var e *config.Error
//	if errors.As(err, &e) { fmt.Println(e.Line, e.Key) }
package config

import (
	"fmt"
	"net"
	"net/netip"
	"strings"
	"time"
)

// A Duration is a [time.Duration] that the file writes as Go does, for example "24h" or
// "1h30m".
type Duration time.Duration

// UnmarshalText reads the form of [time.ParseDuration].
func (d *Duration) UnmarshalText(text []byte) error {
	v, err := time.ParseDuration(string(text))
	if err != nil {
		return fmt.Errorf("%.40q is not a duration like \"24h\" or \"90s\"", text)
	}
	*d = Duration(v)
	return nil
}

// MarshalText writes the shortest form that UnmarshalText reads.
func (d Duration) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// String returns d without the zero minutes and seconds of [time.Duration],
// for example "24h".
func (d Duration) String() string {
	v := time.Duration(d)
	switch {
	case v != 0 && v%time.Hour == 0:
		return fmt.Sprintf("%dh", v/time.Hour)
	case v != 0 && v%time.Minute == 0:
		return fmt.Sprintf("%dm", v/time.Minute)
	}
	return v.String()
}

// Config holds the whole file. Make one with [Default], [Parse] or [Load]; the zero Config has no
// usable values. The package never changes a Config that it has returned, so it may be read
// concurrently.
type Config struct {
	Node      Node        `toml:"node" doc:"This node and where it keeps its state."`
	Listen    Listen      `toml:"listen" doc:"The front doors: \"host:port\", or \"unix:/path\" where a socket is offered.\nWith a configuration file, a door whose key is absent or empty is off;\nwithout one, every door listens on the loopback address shown here."`
	HTTP      HTTP        `toml:"http" doc:"The HTTP API and the pages."`
	Tally     Tally       `toml:"tally" doc:"The tally: how often a signature was seen, reported, or called ham."`
	Blocklist Blocklist   `toml:"blocklist" doc:"The blocklist: what trusted reporters have called spam and has not been revoked."`
	Memory    Memory      `toml:"memory" doc:"Messages that were seen lately, by their signatures: who reports or asks with a digest\nalone (Pyzor, DCC, Razor, fuzzy_check) is answered of the whole message."`
	Learn     Learn       `toml:"learn" doc:"Words and style of mail, which the node learns from reports and deliveries; see\ndocs/learning.md."`
	Judgement Judgement   `toml:"judgement" doc:"How careful the judgement is; see docs/judgement.md."`
	History   History     `toml:"history" doc:"Checks and votes of the last days, on disk, for the history and for votes by Message-ID;\nand the record of what administrators did."`
	Trust     Trust       `toml:"trust" doc:"How much a reporter's votes weigh."`
	Limits    Limits      `toml:"limits" doc:"What one client may ask for. Limits are applied before anything is parsed."`
	Razor2    Razor2      `toml:"razor2" doc:"Razor 2 clients."`
	Pyzor     Pyzor       `toml:"pyzor" doc:"Pyzor clients."`
	DCC       DCC         `toml:"dcc" doc:"DCC clients over UDP, and how checksums are counted for dccifd too."`
	Dccifd    Dccifd      `toml:"dccifd" doc:"The socket of dccifd."`
	Fuzzy     Fuzzy       `toml:"fuzzy" doc:"rspamd's fuzzy_check."`
	Milter    Milter      `toml:"milter" doc:"Mail that Postfix or Sendmail passes on while the sender is still connected."`
	Policy    Policy      `toml:"policy" doc:"Postfix policy delegation, and the rate limits behind it."`
	RateLimit []RateLimit `toml:"ratelimit" reload:"yes" doc:"A limit on what one key may do in a period: different recipients of an account,\ndifferent senders of a host, messages, bytes. All rules apply to every request."`
	Lists     Lists       `toml:"lists" doc:"Black, white and grey lists in filter files, as \"bulkhead list build\" makes them."`
	DNSBL     DNSBL       `toml:"dnsbl" doc:"Lists served through DNS."`
	Mesh      Mesh        `toml:"mesh" doc:"Sharing with other nodes; see \"bulkhead network\" and \"bulkhead peer\"."`
	Aggregate Aggregate   `toml:"aggregate" doc:"The sum of this node and peers, for those who shall count many organisations as one\npeer; see docs/mesh.md."`
	Upstream  Upstream    `toml:"upstream" doc:"The node that this one asks, as an edge that has only doors of its own. Not together\nwith [tally], [blocklist], [judgement], [trust] and [mesh]."`
	Shards    Shards      `toml:"shards" doc:"The map of a site whose mailboxes are divided among several nodes, for its edges; see\ndocs/large-sites.md. As [upstream], not together with [tally] and the others."`
	Journal   Journal     `toml:"journal" doc:"Where acknowledged reports are kept until a snapshot covers them."`
	Standby   Standby     `toml:"standby" doc:"A second node that follows this one and takes over when it dies; see docs/standby.md."`
	Whitelist Whitelist   `toml:"whitelist" doc:"Mail that is never called spam or bulk, and whose reports are not counted."`
}

// Node is the section [node].
type Node struct {
	Data       string   `toml:"data" doc:"folder of the node's state; --data overrides it. Empty: $STATE_DIRECTORY, else ./bulkhead-data"`
	Name       string   `toml:"name" doc:"name of the node in logs and on the pages. Empty: the host name"`
	Durability string   `toml:"durability" doc:"\"always\": a report is acknowledged once it would survive a power cut;\n\"relaxed\": acknowledged before it is on disk, lost with the machine;\n\"standby\": as \"always\", and once the standby has it on disk, see [standby]"`
	Checkpoint Duration `toml:"checkpoint" doc:"longest time between two snapshots of the books. A start reads back from the journal\nwhat was reported since the last one"`
	LogLevel   string   `toml:"log_level" reload:"yes" doc:"\"debug\", \"info\", \"warn\" or \"error\""`
	LogFormat  string   `toml:"log_format" doc:"\"text\" or \"json\""`
}

// Listen is the section [listen], with one key for each front door. The address of a door
// that is off is "".
type Listen struct {
	HTTP        string `toml:"http" doc:"HTTP API, pages, metrics (TCP)"`
	Razor2      string `toml:"razor2" doc:"Razor 2 clients (TCP)"`
	Pyzor       string `toml:"pyzor" doc:"Pyzor clients (UDP)"`
	PyzorHelper string `toml:"pyzor_helper" doc:"rspamd's external pyzor helper (TCP)"`
	RazorHelper string `toml:"razor_helper" doc:"rspamd's external razor helper (TCP)"`
	DCC         string `toml:"dcc" doc:"DCC clients (UDP)"`
	Dccifd      string `toml:"dccifd" doc:"programs that speak to dccifd (TCP or unix socket)"`
	Fuzzy       string `toml:"fuzzy" doc:"rspamd's fuzzy_check (UDP and TCP)"`
	Milter      string `toml:"milter" doc:"Postfix and Sendmail (TCP or unix socket)"`
	Policy      string `toml:"policy" doc:"Postfix policy delegation (TCP or unix socket)"`
	DNSBL       string `toml:"dnsbl" doc:"DNS block list queries (UDP and TCP)"`
}

// Reachable returns the address at which programs of the same machine reach a listener. It returns the path of a
// socket, and what is no address, as it is.
func Reachable(listen string) string {
	host, port, err := net.SplitHostPort(listen)
	if err != nil || strings.HasPrefix(listen, "unix:") {
		return listen
	}
	switch addr, err := netip.ParseAddr(host); {
	case host == "", err == nil && addr.Unmap() == netip.IPv4Unspecified():
		host = "127.0.0.1"
	case err == nil && addr.IsUnspecified():
		host = "::1"
	}
	return net.JoinHostPort(host, port)
}

// HTTP is the section [http].
type HTTP struct {
	AnonymousCheck  string   `toml:"anonymous_check" reload:"yes" doc:"who may check without a token: \"loopback\", \"all\" or \"none\""`
	AnonymousReport string   `toml:"anonymous_report" reload:"yes" doc:"who may report without a token: \"loopback\", \"all\" or \"none\""`
	TrustedProxies  []string `toml:"trusted_proxies" reload:"yes" doc:"networks of reverse proxies whose X-Forwarded-For names their clients. It\ngives no rights: a request that a proxy passed on never counts as local"`
	MaxBody         int64    `toml:"max_body_bytes" reload:"yes" doc:"largest request body, bytes"`
	ReadTimeout     Duration `toml:"read_timeout" doc:"longest time to read one request"`
	IdleTimeout     Duration `toml:"idle_timeout" doc:"time after which an idle connection is closed"`
	TLSCert         string   `toml:"tls_cert" doc:"PEM file with the certificate chain; it and tls_key are read again on SIGHUP.\nEmpty: plain HTTP"`
	TLSKey          string   `toml:"tls_key" doc:"PEM file with the private key of tls_cert"`
}

// Tally is the section [tally].
type Tally struct {
	Generation Duration `toml:"generation" doc:"length of one generation"`
	Keep       int      `toml:"keep" doc:"number of generations that are kept; the oldest is dropped whole"`
	Capacity   int64    `toml:"capacity" doc:"signatures per generation that the first one is sized for. Later generations\nfollow the use of the last two days, from an eighth of it on"`
	Error      float64  `toml:"error" doc:"accepted probability that a count is wrong when a generation is full, 0 to 1"`
	Memory     int64    `toml:"memory_bytes" doc:"memory for all generations, bytes. When it is used up, the oldest are dropped before\ntheir time. 0: a quarter of the machine's"`
	Threshold  uint32   `toml:"threshold" reload:"yes" doc:"count at which a message is bulk, messages"`
	NearMatch  int      `toml:"near_match" doc:"bulkhead/near bands that must agree before they speak for a message, bands"`
}

// Blocklist is the section [blocklist].
type Blocklist struct {
	Generation Duration `toml:"generation" doc:"length of one generation"`
	Keep       int      `toml:"keep" doc:"number of generations that are kept; the oldest is dropped whole"`
	Capacity   int64    `toml:"capacity" doc:"signatures per generation that the first one is sized for"`
	Error      float64  `toml:"error" doc:"accepted probability that an unreported signature is found listed when a\ngeneration is full, 0 to 1"`
	Memory     int64    `toml:"memory_bytes" doc:"memory for all generations, bytes. When it is used up, the oldest are dropped before\ntheir time. 0: a quarter of the machine's"`
	Order      string   `toml:"lookup_order" doc:"\"spam-first\": ask the spam filter, and the revocations only for what it holds;\n\"revoke-first\": the other way round"`
}

// Memory is the section [memory].
type Memory struct {
	Bytes int64    `toml:"memory_bytes" doc:"memory for messages, bytes; one takes some 2,000. When it is used up, the oldest are\nforgotten. 0: none is remembered"`
	Keep  Duration `toml:"keep" doc:"time after which a message is forgotten unless it is seen again"`
}

// Learn is the section [learn].
type Learn struct {
	Enabled bool  `toml:"enabled" doc:"learn words and style, and judge by them. They stay on this node, unless it shares them"`
	Condemn bool  `toml:"condemn" doc:"a score of 0.999 or more alone makes a message spam; otherwise it is suspected"`
	Share   bool  `toml:"share" doc:"exchange counts of words that two people had in their mail with the peers of [mesh] that\ndo the same; see docs/privacy.md"`
	Memory  int64 `toml:"memory_bytes" doc:"memory for what was learnt, bytes. When it is used up, the oldest is forgotten"`
}

// Judgement is the section [judgement].
type Judgement struct {
	WantedLost float64 `toml:"wanted_lost" reload:"yes" doc:"wanted mails called spam by mistake, per 100,000, that are acceptable. A lower\nnumber asks for more votes; it has effect in steps: 0, 0.5, 1, 2 and 5"`
}

// History is the section [history].
type History struct {
	Bytes    int64 `toml:"size_bytes" doc:"size of the file history.db, bytes; a message takes some 1,500. The oldest make room.\n0: nothing is kept, and the file is removed at the next start"`
	Days     int   `toml:"days" doc:"days after which an entry is dropped"`
	Subjects bool  `toml:"subjects" doc:"keep the Subject of messages that doors see whole"`
	Audit    int64 `toml:"audit_bytes" doc:"size of the record of administration, audit.jsonl and audit.1.jsonl together, bytes"`
}

// Trust is the section [trust]. Weights are from 0 (no influence) to 1 (full influence).
type Trust struct {
	Promotion      float64 `toml:"promotion" reload:"yes" doc:"weight for spam, less the weight against it, at which a signature is listed; above\n0. With 1, one report of full weight is enough"`
	Loopback       float64 `toml:"loopback" reload:"yes" doc:"weight of a client without an account on a loopback address, and start weight\nof accounts registered from there, 0 to 1"`
	Anonymous      float64 `toml:"anonymous" reload:"yes" doc:"weight of other clients without an account, 0 to 1; 0: their votes are refused"`
	SelfRegistered float64 `toml:"self_registered" reload:"yes" doc:"start weight of an account that was registered through a protocol from\nelsewhere, 0 to 1"`
	Ceiling        float64 `toml:"ceiling" reload:"yes" doc:"most weight that a reporter earns through reports that trusted accounts confirm,\n0 to 1"`
	Half           float64 `toml:"half" reload:"yes" doc:"days with a confirmed report that earn half of the way from the start weight to\nthe ceiling"`
	Accounts       int     `toml:"accounts" reload:"yes" doc:"most accounts that clients on other machines may register themselves"`
	PerNetwork     int     `toml:"accounts_per_network" reload:"yes" doc:"most of them of one network: a /24, or a quarter of an IPv6 /32"`
	IdleDays       int     `toml:"idle_days" reload:"yes" doc:"days without a vote after which such an account is removed if it never helped"`
}

// Limits is the section [limits]. Rates are per client: an IPv4 address or an
// IPv6 /64 network. Zero means no limit.
type Limits struct {
	Rate          float64 `toml:"requests_per_second" reload:"yes" doc:"requests per second of one client address (IPv6: one /64); 0: no limit"`
	Burst         int     `toml:"burst" reload:"yes" doc:"requests that one client may send at once before the rate applies"`
	Loopback      bool    `toml:"limit_loopback" reload:"yes" doc:"apply the rate to loopback clients, too"`
	Connections   int     `toml:"connections" doc:"open connections of one TCP front door. Beyond that, the\nlongest silent connection of the network that holds the most is closed"`
	Memory        int64   `toml:"memory_bytes" doc:"memory that messages may take which all front doors together are reading and\njudging, bytes: 4 times their size. Beyond that a message waits, and is then refused\nfor now, and a datagram is dropped; the milter does as on_fault of [milter] says. 0: an eighth of the machine's\nmemory, or of what its control group may have, and at least 64 MiB"`
	MaxSignatures int     `toml:"signatures_per_message" reload:"yes" doc:"signatures of one message in a request"`
	MaxBatch      int     `toml:"messages_per_batch" reload:"yes" doc:"messages in one batch request"`
}

// Whitelist is the section [whitelist].
type Whitelist struct {
	AuthResults []string `toml:"authentication_results" reload:"yes" doc:"names of hosts whose Authentication-Results are trusted. They must remove fields\nwith their name from incoming mail. DKIM and SPF that passed verify a sender"`
	Senders     []string `toml:"senders" reload:"yes" doc:"addresses of verified senders: \"someone@example.com\". An entry\n\"forgeable:someone@example.com\" matches unverified ones, which any sender can forge"`
	Domains     []string `toml:"domains" reload:"yes" doc:"domains of verified senders: \"example.com\", subdomains included; or\n\"forgeable:example.com\", as above"`
	Networks    []string `toml:"networks" reload:"yes" doc:"networks of delivering SMTP clients: \"192.0.2.0/24\""`
	ListIDs     []string `toml:"list_ids" reload:"yes" doc:"mailing lists, by the value of List-Id without angle brackets, below a verified\ndomain; or \"forgeable:...\", as above"`
	DKIM        []string `toml:"dkim" reload:"yes" doc:"domains whose DKIM signature was verified"`
	Signatures  []string `toml:"signatures" reload:"yes" doc:"signatures as \"bulkhead signatures\" prints them"`
}
