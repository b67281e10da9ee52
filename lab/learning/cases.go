package learning

import "slices"

// A Case is a run with a name.
type Case struct {
	Name string
	Options
}

// Cases returns honest networks, networks with liars, spam with the words of wanted mail, and mistaken
// reports, all else as in o. There are no cases with as many liars as sites.
func Cases(o Options) []Case {
	with := func(name string, change func(*Options)) Case {
		c := Case{name, o}
		change(&c.Options)
		return c
	}
	cases := []Case{
		with("honest", func(*Options) {}),
		with("one site alone", func(o *Options) { o.Sites = 1 }),
		with("one condemns", func(o *Options) { o.Lie, o.Liars = Condemn, 1 }),
		with("three condemn", func(o *Options) { o.Lie, o.Liars = Condemn, 3 }),
		with("one condemns shops", func(o *Options) { o.Lie, o.Liars = Smear, 1 }),
		with("one condemns a sender's words", func(o *Options) { o.Lie, o.Liars = Single, 1 }),
		with("three condemn a sender's words", func(o *Options) { o.Lie, o.Liars = Single, 3 }),
		with("one lies in turns", func(o *Options) { o.Lie, o.Liars = Turn, 1 }),
		with("three lie in turns", func(o *Options) { o.Lie, o.Liars = Turn, 3 }),
		with("one vouches", func(o *Options) { o.Lie, o.Liars = Vouch, 1 }),
		with("three vouch", func(o *Options) { o.Lie, o.Liars = Vouch, 3 }),
		with("one inflates", func(o *Options) { o.Lie, o.Liars = Inflate, 1 }),
		with("three inflate", func(o *Options) { o.Lie, o.Liars = Inflate, 3 }),
		with("50 words of chaff", func(o *Options) { o.Chaff = 50 }),
		with("a whole ham as chaff", func(o *Options) { o.Chaff = -1 }),
		with("1 % mistaken", func(o *Options) { o.Mistaken = 0.01 }),
	}
	return slices.DeleteFunc(cases, func(c Case) bool { return c.Liars >= c.Sites })
}

// Add adds the counts of another run.
func (r *Result) Add(o *Result) {
	r.Spam, r.Ham, r.LaterSpam = r.Spam+o.Spam, r.Ham+o.Ham, r.LaterSpam+o.LaterSpam
	r.Made, r.MadeFlagged, r.Aimed = r.Made+o.Made, r.MadeFlagged+o.MadeFlagged, r.Aimed+o.Aimed
	for i := range Levels {
		r.Caught[i] += o.Caught[i]
		r.Hit[i] += o.Hit[i]
		r.LaterCaught[i] += o.LaterCaught[i]
		r.MadeHit[i] += o.MadeHit[i]
		r.AimedHit[i] += o.AimedHit[i]
	}
}
