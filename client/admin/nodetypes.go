package admin

import "time"

// NodeState is the state of a node.
type NodeState struct {
	Name       string     `json:"name"`
	Version    string     `json:"version"`
	Network    string     `json:"network,omitempty" doc:"Fingerprint of the secret of its network, as \"bulkhead network show\" prints it. Nodes know each other's near copies only if it is the same."`
	Started    time.Time  `json:"started"`
	Now        time.Time  `json:"now" doc:"The node's clock, a second old at most."`
	Durability string     `json:"durability" enum:"always,relaxed,standby" doc:"When a report is acknowledged: once it would survive a power cut, before that, or once the standby has it as well."`
	ReadOnly   string     `json:"read_only,omitempty" doc:"Why reports are refused at present; absent if they are not."`
	Doubts     []Doubt    `json:"doubts,omitempty" doc:"What may be lower than was acknowledged since a damaged store was salvaged. Absent if nothing is."`
	Healed     []Healed   `json:"healed,omitempty" doc:"Pages that were lost and are whole again since the start, by the peer whose replica they are of. Absent if there are none."`
	Missing    []string   `json:"missing,omitempty" doc:"Files and folders of the data folder that the node had, that were gone when it started, and that began anew."`
	Relayed    *string    `json:"relayed,omitempty" doc:"Host that the first request named which came from this machine over HTTP, for another host, without a sign that a proxy passed it on: clients of a proxy that adds nothing can pass for this machine. Absent if there was none since the start."`
	SetAside   []SetAside `json:"set_aside,omitempty" doc:"Generations that have aged out, and can be brought back until the node has run for a day since."`
	Ageing     *Ageing    `json:"ageing_held,omitempty" doc:"The clock is implausibly far ahead, so no generation expires until it is right or confirmed. Absent otherwise."`
	Threshold  uint32     `json:"threshold" doc:"Count at which a message is bulk, if a check does not say otherwise."`
	Mature     bool       `json:"mature" doc:"The node knows what mail usually comes to it: 200 messages of verified senders on 2 days before today. Links and contacts decide nothing before."`
	Accounts   int        `json:"accounts" doc:"Accounts of the node, closed ones included."`
	Doors      []Door     `json:"doors" doc:"Front doors that are open."`
	Counters   Counters   `json:"counters"`
	Joined     *Joined    `json:"votes_joined,omitempty" doc:"Votes since the start by how the deliveries that they are about were found. Absent if the node does not remember messages."`
	Judgement  *Judgement `json:"judgement,omitempty" doc:"How careful the judgement is. Absent on an edge."`
	Learned    *Learned   `json:"learned,omitempty" doc:"What the node has learnt of words and style. Absent if it does not learn."`
	Books      []Book     `json:"books"`
	Standby    *Standby   `json:"standby,omitempty" doc:"The node's part in a pair of which one follows the other. Absent if it is alone."`
	Journal    *Journal   `json:"journal,omitempty" doc:"The stream of the node's journal. Absent if the journal is on the node's disk only."`
	Shards     *Shards    `json:"shards,omitempty" doc:"The map of the site's shards that this edge uses. Absent on other nodes."`
	Disk       *Disk      `json:"disk,omitempty" doc:"The file system of the data folder; absent if it cannot be asked."`
	Memory     *Memory    `json:"memory,omitempty" doc:"The memory of the process; absent if the system cannot be asked."`
}

// Journal describes the stream in which a node keeps its journal.
type Journal struct {
	Server   string `json:"server,omitempty" doc:"URL of the server that the node is connected to; absent if it is to none."`
	First    uint64 `json:"first" doc:"First entry of the stream."`
	Last     uint64 `json:"last" doc:"Last entry of the stream, as far as the node knows."`
	Replicas int    `json:"replicas" doc:"Servers that keep the stream; 0 if that is not known."`
	Bytes    uint64 `json:"bytes" doc:"Size of the stream, bytes, as far as the node knows."`
	MaxBytes uint64 `json:"max_bytes" doc:"Size at which it takes no more entries, bytes."`
	Problem  string `json:"problem,omitempty" doc:"Why it takes no entries; absent if it does."`
}

// Shards describes the map of a site's shards, as an edge uses it.
type Shards struct {
	Site    string    `json:"site" doc:"Name of the site."`
	Version uint64    `json:"version" doc:"Number of changes of the map; 0: the edge has no map yet, answers unknown, and keeps reports."`
	Changed time.Time `json:"changed,omitzero" doc:"When the map was last changed."`
	By      string    `json:"by,omitempty" doc:"Who changed it."`
	Change  string    `json:"change,omitempty" doc:"What was changed."`
	Read    time.Time `json:"read,omitzero" doc:"When the servers last had a valid map; absent if they had none since the start."`
	Problem string    `json:"problem,omitempty" doc:"Why the map could not be read; absent if it could. The edge goes on with the map that it has."`
	Shards  []Shard   `json:"shards"`
}

// Shard describes one shard of a site.
type Shard struct {
	Name    string   `json:"name"`
	URLs    []string `json:"urls" doc:"Addresses of its first node and of its standbys."`
	Slots   int      `json:"slots" doc:"Slots of the 1,024 that it has."`
	Default bool     `json:"default,omitempty" doc:"It has the requests of this edge that name no mailbox."`
	Up      bool     `json:"up" doc:"It answered the edge's last request."`
	Waiting int      `json:"waiting" doc:"Reports that wait on the edge's disk for it."`
}

// Standby describes one of two nodes of which the second follows the first.
type Standby struct {
	Role      string    `json:"role" enum:"first,second" doc:"first: it decides; second: it follows, answers checks, and refuses votes."`
	Address   string    `json:"address,omitempty" doc:"Where the other node listens, as far as this one knows."`
	Term      uint64    `json:"term" doc:"Each take-over begins the next one."`
	Connected bool      `json:"connected" doc:"Entries of the journal flow."`
	Copying   bool      `json:"copying,omitempty" doc:"The whole state is being copied."`
	Last      uint64    `json:"last" doc:"Last entry of the first node's journal, as far as this node knows."`
	Copied    uint64    `json:"copied" doc:"Last entry that the second node has on disk."`
	Lag       uint64    `json:"lag" doc:"Entries that the second node lacks."`
	Age       float64   `json:"age_seconds" doc:"For how long it has lacked entries, seconds; 0 if it lacks none."`
	Heard     time.Time `json:"heard,omitzero" doc:"When the other node was last heard; absent if it never was."`
	Problem   string    `json:"problem,omitempty" doc:"Why nothing flows; absent if there is no reason known."`
	Witness   *Witness  `json:"witness,omitempty" doc:"The servers that decide which of the two nodes may take votes. Absent without them: the second node takes over by command only."`
}

// Witness describes the lease that at most one node of a pair holds.
type Witness struct {
	Holder  string `json:"holder" enum:"this,other,none,unknown" doc:"Who holds the lease, as far as this node knows."`
	Behind  bool   `json:"behind" doc:"The second node may lack what was acknowledged, so it takes over by command only."`
	Problem string `json:"problem,omitempty" doc:"Why the last request to the witness failed; absent if it did not."`
}

// SetAside describes a generation that has aged out, and is kept in a file.
type SetAside struct {
	Book  string    `json:"book" enum:"tally,blocklist"`
	Start time.Time `json:"start"`
}

// BroughtBack reports how many generations were brought back.
type BroughtBack struct {
	Generations int `json:"generations" doc:"Brought back."`
	Expired     int `json:"expired" doc:"Still expired by the node's clock: set the clock right first."`
}

// Ageing describes a node whose clock is implausibly far ahead.
type Ageing struct {
	Newest    time.Time `json:"newest" doc:"The newest record, or the last time at which the clock was plausible."`
	Now       time.Time `json:"now" doc:"Time by which new generations open: the newest record's, and the time that the node has run since."`
	Clock     time.Time `json:"clock" doc:"What the machine's clock shows."`
	Tally     int       `json:"tally" doc:"Generations of the tally that expire at once if the clock is confirmed."`
	Blocklist int       `json:"blocklist" doc:"The same of the blocklist."`
}

// Joined counts votes by how the deliveries that they are about were found. A vote without its
// delivery counts for the message, but not for its sender or network.
type Joined struct {
	MessageID uint64 `json:"message_id" doc:"By Message-ID."`
	Text      uint64 `json:"text" doc:"By the same text."`
	Near      uint64 `json:"near" doc:"By a text that is nearly the same."`
	Unknown   uint64 `json:"unknown" doc:"Votes whose deliveries were not found."`
}

// Judgement describes how careful the judgement is.
type Judgement struct {
	WantedLost float64 `json:"wanted_lost" minimum:"0" doc:"Wanted mails called spam by mistake, per 100,000, that the operator accepts."`
	Step       int     `json:"step" minimum:"1" doc:"Step that follows from it; the first asks for the most votes."`
	Steps      int     `json:"steps" minimum:"1" doc:"Number of steps."`
}

// Learned describes what a node has learnt of the words and the style of mail.
type Learned struct {
	Reported  uint64  `json:"reported" doc:"Messages that were reported as spam."`
	Delivered uint64  `json:"delivered" doc:"Messages that were delivered."`
	Share     float64 `json:"share" minimum:"0" maximum:"1" doc:"Estimated share of the spam that is reported; 0: unknown."`
	Judges    bool    `json:"judges" doc:"There are enough reports for a score alone to make a message suspected."`
	Bytes     uint64  `json:"bytes" doc:"Memory."`
	// Together is what the node learns together with its peers.
	Together *Together `json:"together,omitempty" doc:"What the node learns together with its peers. Absent if it does not share words."`
}

// Together describes what a node learns together with its peers.
type Together struct {
	Taught  int       `json:"taught" doc:"Words and idioms of which the node has shared the counts."`
	Waiting int       `json:"waiting" doc:"Messages since the last round. A round takes 50."`
	Peers   []Teacher `json:"peers" doc:"Peers that share their counts."`
}

// Teacher is a peer from whose counts of words a node learns.
type Teacher struct {
	Key       string  `json:"key"`
	Reported  float64 `json:"reported" doc:"Messages that were reported as spam."`
	Delivered float64 `json:"delivered" doc:"Messages that were delivered."`
	Words     int     `json:"words" doc:"Words and idioms with counts."`
	Tried     int     `json:"tried" doc:"The latest wanted messages of this node that were scored by the peer's counts alone."`
	Hits      int     `json:"hits" doc:"Those with a score of 0.99 or more."`
	LeftOut   bool    `json:"left_out" doc:"The peer does not count, because it would condemn more than 1 % of this node's wanted mail."`
	Full      bool    `json:"full" doc:"The peer's share of the memory is used up."`
}

// Disk is the room in the file system of the data folder.
type Disk struct {
	Free   uint64 `json:"free" doc:"Bytes that the node can still write."`
	Total  uint64 `json:"total" doc:"Bytes of the file system."`
	Needed uint64 `json:"needed" doc:"Bytes that a snapshot of everything would take."`
}

// Memory is the memory of the process, by what it is for.
type Memory struct {
	Resident uint64        `json:"resident" doc:"Bytes that are in the machine's memory now."`
	Owners   []MemoryOwner `json:"owners" doc:"What the process has asked the system for. Of new arrays, the system gives it only the pages that are in use."`
}

// A MemoryOwner is one use of memory.
type MemoryOwner struct {
	Name  string `json:"name" enum:"tally,blocklist,peers,words,objects,unused,stacks,runtime,files" doc:"peers: their counts; words: the words and the style of mail; objects: everything else that the node remembers or works on; unused: what garbage left; files: the program, lists and other files."`
	Bytes uint64 `json:"bytes"`
}

// Counters count the node's work since it started, through all doors.
type Counters struct {
	Checks      uint64 `json:"checks"`
	Reports     uint64 `json:"reports" doc:"Reports and revokes that were taken."`
	Refused     uint64 `json:"refused" doc:"Reports and revokes that were refused."`
	Entries     uint64 `json:"journal_entries" doc:"Entries written to the journal; one holds a batch of reports."`
	Checkpoints uint64 `json:"checkpoints" doc:"Snapshots written."`
	Recoveries  uint64 `json:"recoveries" doc:"Times that the node got over a failed write."`
	Forgotten   uint64 `json:"forgotten" doc:"Generations that were given up before their time for want of memory."`
	Gatherings  uint64 `json:"gatherings" doc:"Times that the voters on a text became 5, 10, 20 and so on, and their weight did not get them what they vote for, those against a sender of good standing 1, 2, 4 and so on, that votes listed what many received, or listed a text for the 4th, 8th, 16th time in a week."`
}

// A Door is one open front door.
type Door struct {
	Name    string `json:"name" doc:"Its key in the section [listen] of the configuration."`
	Address string `json:"address"`
}

// A Book is the tally or the blocklist.
type Book struct {
	Name        string       `json:"name" enum:"tally,blocklist"`
	Bytes       uint64       `json:"bytes" doc:"Memory of all arrays."`
	Generations []Generation `json:"generations" doc:"Live generations, the newest first."`
}

// A Generation is one time slice of a book.
type Generation struct {
	Start    time.Time `json:"start"`
	End      time.Time `json:"end" doc:"When the next one begins, or began."`
	Capacity uint64    `json:"capacity" doc:"Signatures that it was sized for."`
	Arrays   []Array   `json:"arrays"`
}

// An Array is one filter of a generation.
type Array struct {
	Name     string  `json:"name" doc:"What it holds: counts, weights, unique (who has voted on what), spam, or revoked."`
	Geometry string  `json:"geometry" doc:"Blocks, cells and hashes."`
	Bytes    uint64  `json:"bytes" doc:"Memory of the array."`
	Keys     uint64  `json:"keys" doc:"Distinct keys that were added, as far as the node knows."`
	Fill     float64 `json:"fill" minimum:"0" maximum:"1" doc:"Share of cells or bits that are not zero."`
	Ghost    float64 `json:"ghost" minimum:"0" maximum:"1" doc:"Probability that an absent key is found, at the present fill."`
	Wrong    float64 `json:"count_wrong" minimum:"0" maximum:"1" doc:"Counting arrays: expected share of counts that are too high."`
	Bulk     float64 `json:"bulk_wrong" minimum:"0" maximum:"1" doc:"Counting arrays: probability that an absent key shows the threshold."`
}
