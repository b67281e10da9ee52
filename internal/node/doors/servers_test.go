package doors

import (
	"context"
	"errors"
	"net/netip"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/dcc"
	dccsum "github.com/bulkhead-mail/bulkhead/digest/dcc"
	"github.com/bulkhead-mail/bulkhead/dnsbl"
	"github.com/bulkhead-mail/bulkhead/door"
	"github.com/bulkhead-mail/bulkhead/internal/config"
	"github.com/bulkhead-mail/bulkhead/internal/lists"
	"github.com/bulkhead-mail/bulkhead/internal/testing/await"
	"github.com/bulkhead-mail/bulkhead/internal/testing/logtest"
	"github.com/bulkhead-mail/bulkhead/internal/testing/nodetest"
	"github.com/bulkhead-mail/bulkhead/milter"
	"github.com/bulkhead-mail/bulkhead/pyzor"
)

// set returns the doors of a node before they are opened.
func set(t *testing.T, cfg *config.Config) *Set {
	t.Helper()
	o, _ := rig(t, cfg)
	return &Set{opts: o, counted: make(map[string]*countedHouse), places: 7}
}

// TestServers checks what the servers of the doors have from the configuration and from the node.
func TestServers(t *testing.T) {
	cfg := config.Default()
	cfg.Limits.Rate, cfg.Limits.Burst = 3, 4
	cfg.HTTP.MaxBody = 99
	cfg.DCC.AnonymousRate, cfg.DCC.AnonymousTotal, cfg.DCC.Keep = 2.5, 5, []string{"Fuz2", "IP", "Body"}
	cfg.Razor2.Register, cfg.Razor2.Confidence, cfg.Razor2.MaxHosts = 6, 1, 2
	cfg.Policy.OnFault = "defer"
	cfg.Pyzor.Anonymous, cfg.Pyzor.Users = []string{"check", "ping"}, nil
	cfg.Dccifd.Rules, cfg.Dccifd.Thresholds = "1", []string{"CMN,5", "Fuz1,8"}
	s := set(t, cfg)
	dccServer, err1 := s.newDCC(cfg)
	ifd, _, err2 := s.newDccifd(cfg)
	fuzzyServer, err3 := s.newFuzzy(cfg)
	mta, _, err4 := s.newMilter()
	if err := errors.Join(err1, err2, err3, err4); err != nil {
		t.Fatal(err)
	}
	razor, pyz, pol, mail := s.newRazor2(cfg), s.newPyzor(cfg), s.newPolicy(cfg), s.mailServer(cfg, "x")
	for what, pair := range map[string][2]any{
		"dcc: types":                {dccServer.Keep, []dccsum.Type{dccsum.TypeIP, dccsum.TypeBody, dccsum.TypeFuz2}},
		"dcc: anonymous":            {dccServer.AnonymousRate, door.Rate{PerSecond: 2.5, Burst: 25}},
		"dcc: all anonymous":        {dccServer.AnonymousTotal, door.Rate{PerSecond: 5, Burst: 50}},
		"dcc: networks":             {len(dccServer.AnonymousFrom), 2},
		"dcc: whitelist":            {dccServer.Whitelist == nil, true},
		"dccifd: rules":             {ifd.Rules, dccsum.Rules1},
		"dccifd: thresholds":        {len(ifd.Thresholds) > 1 && ifd.Thresholds[dccsum.TypeFuz1] == 8, true},
		"dccifd: users":             {ifd.UserWhite == nil, true},
		"dccifd: words":             {ifd.Words == nil, true},
		"dccifd: greylist":          {ifd.Grey == nil, true},
		"dccifd: connections":       {ifd.MaxConns, 7},
		"fuzzy: keys":               {len(fuzzyServer.Keys), 0},
		"fuzzy: whitelist":          {fuzzyServer.Cleared(nil), false},
		"fuzzy: clearinghouse":      {fuzzyServer.Clearinghouse != nil && fuzzyServer.Log != nil, true},
		"fuzzy: rate":               {fuzzyServer.Rate.Source, &s.rate},
		"razor2: registrations":     {razor.Registrations, door.Rate{PerSecond: 0.1, Burst: 12}},
		"razor2: confidence":        {razor.Confidence, 1},
		"razor2: hosts":             {razor.MaxHosts, 2},
		"pyzor: anonymous":          {pyz.Anonymous, []pyzor.Op{"check", "ping"}},
		"pyzor: users":              {pyz.Users, []pyzor.Op{}},
		"policy: fault":             {pol.FailDefer, true},
		"helper: mail":              {mail.MaxMail, int64(99)},
		"milter: lists":             {mta.Lists != nil && mta.Limiter == nil, true},
		"milter: skips":             {mta.Signatures.Skip, []bulkhead.Scheme{bulkhead.RspamdShingle}},
		"milter: verifies":          {mta.Verify != nil, true},
		"milter: features":          {mta.Features != nil, true},
		"milter: connections":       {mta.MaxConns, 7},
		"milter: whitelist headers": {mta.AuthResults(), cfg.Whitelist.AuthResults},
		"milter: ballots":           {len(mta.Ballots), 0},
		"milter: fault":             {mta.FailTempfail, false},
		"exempt clients":            {[]int{len(dccServer.Exempt), len(pol.Exempt)}, []int{2, 2}},
		"memory":                    {mta.Memory == s.opts.Memory && fuzzyServer.Memory == s.opts.Memory, true},
		"rate":                      {dccServer.Rate.Source, &s.rate},
	} {
		if !reflect.DeepEqual(pair[0], pair[1]) {
			t.Errorf("%s: %v, want %v", what, pair[0], pair[1])
		}
	}
	var doors []string
	for name := range s.counted {
		doors = append(doors, name)
	}
	slices.Sort(doors)
	if want := []string{"dcc", "dccifd", "fuzzy", "milter", "pyzor", "razor2"}; !slices.Equal(doors, want) {
		t.Errorf("the requests of %q are counted, want %q", doors, want)
	}

	// The other way.
	cfg.Razor2.Register, cfg.Razor2.Confidence, cfg.Razor2.MaxHosts = 0, 0, 0
	cfg.Policy.OnFault, cfg.Dccifd.Rules, cfg.Limits.Loopback = "dunno", "2", true
	folder := t.TempDir()
	words, white := filepath.Join(folder, "words"), filepath.Join(folder, "white")
	err := errors.Join(os.WriteFile(words, nil, 0o600), os.WriteFile(white, []byte("ok IP 192.0.2.1\n"), 0o600))
	if err != nil {
		t.Fatal(err)
	}
	cfg.DCC.Whitelist, cfg.Dccifd.Userdirs = white, folder
	cfg.Milter.Verify, cfg.Milter.RateLimits, cfg.Milter.OnFault = false, true, "tempfail"
	cfg.Milter.Abuse, cfg.Milter.AbuseHam = "spam@example.com", "ham@example.com"
	s.opts.Messages = nil
	mta, _, err1 = s.newMilter()
	s.opts.Messages = mails{}
	ifd, _, err2 = s.newDccifd(cfg)
	dccServer, err3 = s.newDCC(cfg)
	if err := errors.Join(err1, err2, err3); err != nil {
		t.Fatal(err)
	}
	razor = s.newRazor2(cfg)
	for what, pair := range map[string][2]any{
		"dcc: whitelist":        {dccServer.Whitelist() != nil, true},
		"dccifd: rules":         {ifd.Rules, dccsum.Rules(0)},
		"dccifd: users":         {ifd.UserWhite != nil, true},
		"razor2: registrations": {razor.Registrations, door.Rate{Burst: 1}},
		"razor2: confidence":    {razor.Confidence, -1},
		"razor2: hosts":         {razor.MaxHosts, -1},
		"policy: fault":         {s.newPolicy(cfg).FailDefer, false},
		"milter: verifies":      {mta.Verify == nil && mta.Features == nil && mta.Limiter != nil, true},
		"milter: fault":         {mta.FailTempfail, true},
		"milter: ballots": {mta.Ballots, []milter.Ballot{{Address: "spam@example.com", Vote: bulkhead.Spam},
			{Address: "ham@example.com", Vote: bulkhead.Ham}}},
		"exempt clients": {len(dccServer.Exempt), 0},
	} {
		if !reflect.DeepEqual(pair[0], pair[1]) {
			t.Errorf("the other way, %s: %v, want %v", what, pair[0], pair[1])
		}
	}
}

// TestMistakes checks that each mistake which only a door can find is found before and when the door opens, by its key.
func TestMistakes(t *testing.T) {
	secret := strings.Repeat("b", 51) + "y"
	missing := filepath.Join(t.TempDir(), "missing")
	damaged := filepath.Join(t.TempDir(), "words")
	if err := os.WriteFile(damaged, []byte("\x00 no words\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		door, key string // key: "" for a mistake that [Check] leaves to the validation of the configuration
		change    func(*config.Config)
	}{
		{"dcc", "", func(c *config.Config) { c.DCC.Anonymous = []string{"x"} }},
		{"dccifd", "dccifd.thresholds", func(c *config.Config) { c.Dccifd.Thresholds = []string{"many"} }},
		{"dccifd", "dccifd.words", func(c *config.Config) { c.Dccifd.Words = missing }},
		{"dccifd", "dccifd.words", func(c *config.Config) { c.Dccifd.Words = damaged }},
		{"fuzzy", "fuzzy.update_from", func(c *config.Config) { c.Fuzzy.UpdateFrom = []string{"x"} }},
		{"fuzzy", "fuzzy.blocked", func(c *config.Config) { c.Fuzzy.Blocked = []string{"x"} }},
		{"fuzzy", "fuzzy.keys.secret", func(c *config.Config) { c.Fuzzy.Keys = []config.FuzzyKey{{Secret: "x"}} }},
		{"fuzzy", "fuzzy.keys.expires", func(c *config.Config) {
			c.Fuzzy.Keys = []config.FuzzyKey{{Secret: secret, Expires: "soon"}}
		}},
		{"milter", "milter.exempt_networks", func(c *config.Config) { c.Milter.ExemptNetworks = []string{"x"} }},
		{"milter", "milter", func(c *config.Config) { c.Milter.Spam = "burn" }},
		{"http", "http.tls_cert", func(c *config.Config) { c.HTTP.TLSCert = missing }},
		{"http", "", func(c *config.Config) { c.HTTP.AnonymousCheck = "x" }},
		{"http", "", func(c *config.Config) { c.HTTP.AnonymousReport = "x" }},
		{"http", "", func(c *config.Config) { c.HTTP.TrustedProxies = []string{"x"} }},
		{"dnsbl", "dnsbl.zone", func(c *config.Config) { c.DNSBL.Zones = []config.DNSBLZone{{Name: "-"}} }},
		{"dnsbl", "dnsbl.zone.text", func(c *config.Config) {
			c.DNSBL.Zones = []config.DNSBLZone{{Name: "z.example", Form: "ip", Live: true, Text: "a\x00b"}}
		}},
		{"dnsbl", "dnsbl.zone.code", func(c *config.Config) {
			c.DNSBL.Zones = []config.DNSBLZone{{Name: "z.example", Form: "ip", Live: true, Code: "x"}}
		}},
		{"dnsbl", "dnsbl.zone", func(c *config.Config) { // it is an edge
			c.Upstream.URL = "http://127.0.0.1:1"
			c.DNSBL.Zones = []config.DNSBLZone{{Name: "z.example", Form: "ip", Live: true}}
		}},
	} {
		cfg := listening("127.0.0.1:0", tt.door)
		tt.change(cfg)
		named := func(err error) bool {
			var wrong *config.Error
			return errors.As(err, &wrong) && wrong.Key == tt.key
		}
		if err := Check(cfg, func(string) *lists.Handle { return nil }); tt.key == "" && err != nil ||
			tt.key != "" && !strings.HasPrefix(tt.key, "fuzzy.u") && !strings.HasPrefix(tt.key, "fuzzy.b") && !named(err) ||
			tt.key != "" && err == nil {
			t.Errorf("%s: checked: %v", tt.key, err)
		}
		o, _ := rig(t, cfg)
		s := new(Set)
		if err := s.Open(t.Context(), o, true); err == nil || !strings.Contains(err.Error(), "listen."+tt.door+": ") {
			t.Errorf("%s %s: opened: %v", tt.door, tt.key, err)
		}
		for _, d := range s.All() {
			d.Abandon()
		}
	}
	if err := Check(config.Default(), func(string) *lists.Handle { return nil }); err != nil {
		t.Errorf("the default configuration: %v", err)
	}
	good := config.Default()
	good.Fuzzy.Keys = []config.FuzzyKey{{Secret: secret, Expires: "2027-12-31", Name: "n"}}
	if f, err := fuzzyOf(good); err != nil || len(f.Keys) != 1 || f.Keys[0].Expires.IsZero() || f.Keys[0].Name != "n" {
		t.Errorf("a good key: %+v, %v", f, err)
	}
}

// TestTakeOver checks what open doors take over from a new configuration, and that a configuration with a mistake is
// refused.
func TestTakeOver(t *testing.T) {
	cfg := listening("127.0.0.1:0", "milter", "dnsbl", "http", "policy")
	o, _ := rig(t, cfg)
	s := new(Set)
	if err := s.Open(t.Context(), o, false); err != nil {
		t.Fatal(err)
	}
	defer func() {
		for _, d := range s.All() {
			d.Abandon()
		}
	}()
	none := func(string) *lists.Handle { return nil }
	next := *cfg
	next.Limits.Rate = 0.001
	next.Limits.Burst = 1
	takeOver, err := s.Prepare(&next, none)
	if err != nil {
		t.Fatal(err)
	}
	limiter := door.NewLimiter(door.Rate{Source: &s.rate}, nil)
	client := netip.MustParseAddr("192.0.2.1")
	allowed := func() (n int) {
		for n < 5 && limiter.Allow(client, 1) {
			n++
		}
		return n
	}
	if n := allowed(); n != 5 {
		t.Errorf("%d requests at once before, want many", n)
	}
	if err := takeOver(); err != nil {
		t.Fatal(err)
	}
	limiter = door.NewLimiter(door.Rate{Source: &s.rate}, nil)
	if n := allowed(); n != 1 {
		t.Errorf("%d requests at once afterwards, want 1", n)
	}
	for what, change := range map[string]func(*config.Config){
		"milter.policy": func(c *config.Config) { c.Milter.Spam = "burn" },
		"dnsbl.zone":    func(c *config.Config) { c.DNSBL.Zones = []config.DNSBLZone{{Name: "-"}} },
		"http.tls_cert": func(c *config.Config) { c.HTTP.TLSCert = "missing" },
		"anonymous":     func(c *config.Config) { c.HTTP.AnonymousCheck = "x" },
	} {
		wrong := *cfg
		change(&wrong)
		if _, err := s.Prepare(&wrong, none); err == nil {
			t.Errorf("a mistake in %s is taken over", what)
		}
	}
}

// TestPartOf checks that a zone has only lists of its form, with values that can be read.
func TestPartOf(t *testing.T) {
	dir := t.TempDir()
	var files []lists.File
	for name, o := range map[string]lists.Options{"plain": {}, "hashed": {Hash: lists.MD5}} {
		text, entry := filepath.Join(dir, name+".txt"), "192.0.2.7\n"
		if name == "hashed" {
			entry = strings.Repeat("0", 32) + "\n"
		}
		o.Capacity = 10
		err := os.WriteFile(text, []byte(entry), 0o600)
		if err == nil {
			_, err = lists.Build(t.Context(), filepath.Join(dir, name), []string{text}, o)
		}
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, lists.File{Name: name, Path: filepath.Join(dir, name)})
	}
	files = append(files, lists.File{Name: "gone", Path: filepath.Join(dir, "gone")})
	all, err := lists.OpenSet(lists.SetOptions{Files: files, Watch: -1, FailOpen: true})
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		form, list, value string
		ok                bool
		part              dnsbl.Part
	}{
		{"ip", "plain", "", true, dnsbl.Part{}},
		{"ip", "plain", ":5:text", true, dnsbl.Part{Code: netip.MustParseAddr("127.0.0.5"), Text: "text"}},
		{"ip", "plain", ":x:", false, dnsbl.Part{}},
		{"ip", "hashed", "", false, dnsbl.Part{}},
		{"hash", "plain", "", false, dnsbl.Part{}},
		{"hash", "hashed", "", true, dnsbl.Part{}},
		{"ip", "gone", "", true, dnsbl.Part{}},
		{"hash", "gone", "", true, dnsbl.Part{}},
		{"ip", "none", "", true, dnsbl.Part{}},
	} {
		zone := config.DNSBLZone{Name: "z.example", Form: tt.form}
		got, err := partOf(&zone, config.ZonePart{List: tt.list, Value: tt.value}, all.Handle)
		if (err == nil) != tt.ok || (got.List != nil) != (tt.ok && tt.list != "none") || got.Code != tt.part.Code ||
			got.Text != tt.part.Text {
			t.Errorf("%+v: %+v, %v", tt, got, err)
		}
	}
}

// TestMilterLists checks which lists the milter asks.
func TestMilterLists(t *testing.T) {
	dir := t.TempDir()
	var files []lists.File
	for _, name := range []string{"one", "two"} {
		text := filepath.Join(dir, name+".txt")
		err := os.WriteFile(text, []byte("evil.example\n"), 0o600)
		if err == nil {
			_, err = lists.Build(t.Context(), filepath.Join(dir, name), []string{text}, lists.Options{Capacity: 10})
		}
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, lists.File{Name: name, Path: filepath.Join(dir, name)})
	}
	all, err := lists.OpenSet(lists.SetOptions{Files: files, Watch: -1})
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct{ names, want []string }{
		{nil, []string{"one", "two"}}, {[]string{"two"}, []string{"two"}}, {[]string{"none"}, nil},
	} {
		cfg := config.Default()
		cfg.Milter.Lists = tt.names
		s := set(t, cfg)
		s.opts.Lists = all
		m, _, err := s.newMilter()
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, match := range m.Lists.Find("evil.example") {
			got = append(got, match.List)
		}
		if slices.Sort(got); !slices.Equal(got, tt.want) || len(m.Lists.Find("\x00")) > 0 {
			t.Errorf("of the lists %q these have it: %q", tt.names, got)
		}
	}
}

// TestReadDelivered checks the signatures and the source of a message at the door for dccifd.
func TestReadDelivered(t *testing.T) {
	dns := nodetest.ServeDNS(t, map[string][]string{"TXT example.com": {"v=spf1 ip4:192.0.2.1 -all"}})
	client := netip.MustParseAddr("192.0.2.1")
	for _, verify := range []bool{false, true} {
		cfg := config.Default()
		cfg.Dccifd.Verify, cfg.Milter.Resolver = verify, dns.Address
		ifd, _, err := set(t, cfg).newDccifd(cfg)
		if err != nil {
			t.Fatal(err)
		}
		sigs, source, err := ifd.Signatures(t.Context(), []byte("Subject: x\n\ntext\n"), "ann@example.com", client)
		spf := map[bool]string{true: "example.com"}[verify]
		if err != nil || source.Client != client || source.Sender != "ann@example.com" ||
			!slices.Equal(source.DKIM, []string{spf}) || (dns.Asked.Load() > 0) != verify {
			t.Errorf("verify %v: %+v, %v", verify, source, err)
		}
		if !slices.ContainsFunc(sigs, func(s bulkhead.Signature) bool { return s.Scheme() == bulkhead.Sender }) ||
			!slices.ContainsFunc(sigs, func(s bulkhead.Signature) bool { return s.Scheme() == bulkhead.Exact }) {
			t.Errorf("verify %v: signatures %v", verify, sigs)
		}
		if _, _, err := ifd.Signatures(t.Context(), nil, "", client); !errors.Is(err, bulkhead.ErrMalformed) {
			t.Errorf("a message that cannot be read: %v", err)
		}
	}
	for raw, want := range map[string]string{"a\nb\n": "a\r\nb\r\n", "a\r\nb\n": "a\r\nb\n", "": ""} {
		if got := string(withCRLF([]byte(raw))); got != want {
			t.Errorf("%q becomes %q, want %q", raw, got, want)
		}
	}
}

// TestGreylist checks that the greylist outlives a start, that a damaged one is set aside, and that the end of the node
// saves it.
func TestGreylist(t *testing.T) {
	cfg := config.Default()
	cfg.Dccifd.Greylist, cfg.Dccifd.Embargo = true, config.Duration(time.Minute)
	cfg.Dccifd.Window, cfg.Dccifd.White = config.Duration(time.Hour), config.Duration(24*time.Hour)
	s, log := set(t, cfg), new(logtest.Log)
	s.opts.Log = log.Logger()
	path, aside := filepath.Join(s.opts.Dir, GreylistFile), ""
	s.opts.SetAside = func(file string) (string, error) {
		aside = file
		return "aside", os.Remove(file)
	}
	load := func() *dcc.Greylist {
		t.Helper()
		front := new(dcc.Ifd)
		if err := s.loadGreylist(front, &cfg.Dccifd); err != nil || front.Grey == nil ||
			front.Grey.Embargo != time.Minute || front.Grey.Window != time.Hour || front.Grey.White != 24*time.Hour {
			t.Fatalf("%+v, %v", front.Grey, err)
		}
		return front.Grey
	}
	now := time.Unix(1e9, 0)
	grey := load()
	first := grey.Ask([16]byte{1}, now, false)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := s.keepGreylist(ctx, grey, time.Hour); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	ctx, cancel = context.WithCancel(t.Context())
	saved := make(chan error, 1)
	go func() { saved <- s.keepGreylist(ctx, grey, time.Millisecond) }()
	await.True(t, "a saved greylist", func() bool { _, err := os.Stat(path); return err == nil })
	cancel()
	if err := errors.Join(<-saved, CheckGreylist(path)); err != nil {
		t.Errorf("the saved greylist: %v", err)
	}
	if second := load().Ask([16]byte{1}, now.Add(2*time.Minute), false); second == first {
		t.Errorf("a sender that came again is answered %v, as at first", second)
	}
	if strings.Contains(log.String(), "greylist") || aside != "" {
		t.Errorf("a good greylist was set aside as %q, and the log has %s", aside, log)
	}
	if err := os.WriteFile(path, []byte("damaged"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := CheckGreylist(path); err == nil || CheckGreylist(path+"x") == nil {
		t.Errorf("a damaged greylist, and one that is not there: %v", err)
	}
	if again := load().Ask([16]byte{1}, now.Add(2*time.Minute), false); again != first || aside != path {
		t.Errorf("after damage: %v, set aside %q", again, aside)
	}
	s.opts.Dir = filepath.Join(s.opts.Dir, "missing")
	if err := s.saveGreylist(grey); err == nil {
		t.Error("a greylist is saved in a folder that does not exist")
	}
	if err := os.WriteFile(s.opts.Dir, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := s.loadGreylist(new(dcc.Ifd), &cfg.Dccifd); err == nil {
		t.Error("a greylist is read from a folder that is a file")
	}
}

// TestFairShareOf checks places of doors for a few limits.
func TestFairShareOf(t *testing.T) {
	for _, tt := range [][4]int{{0, 5, 100, 100}, {-1, 5, 100, 100}, {1, 5, 100, 1}, {1000, 0, 100, 100},
		{1000, 1, 5000, 875},
		{1000, 5, 100, 100}, {1000, 10, 100, 87}, {200, 4, 100, 26}, {100, 10, 100, 1}} {
		if got := fairShare(tt[0], tt[1], tt[2]); got != tt[3] {
			t.Errorf("%v: %d", tt, got)
		}
	}
	for doors, want := range map[string]int{"": 0, "pyzor dcc": 0, "http dnsbl fuzzy": 3, "dcc milter": 1} {
		if got := streamDoors(listening("x", strings.Fields(doors)...)); got != want {
			t.Errorf("%q: %d doors, want %d", doors, got, want)
		}
	}
	if descriptorLimit() < 1 {
		t.Error("the limit of descriptors is unknown")
	}
}
