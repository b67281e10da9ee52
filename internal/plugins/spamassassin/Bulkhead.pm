package Mail::SpamAssassin::Plugin::Bulkhead;

# Asks a bulkhead node about mail over HTTP, and votes there. docs/plugins.md
# of bulkhead says how to set it up.
#
# It hands over the whole mail with what SpamAssassin has verified, and hits a rule for
# the class that the node gives it. "spamassassin -r", "sa-learn --spam" and spamc's
# learning are votes for spam; "-k" and "sa-learn --ham" against it. What SpamAssassin
# learns by itself is no vote. While the node is away, slow or says what cannot be
# understood, no rule hits, and votes wait on disk: see "bulkhead waiting".

use strict;
use warnings;

use Fcntl qw(O_CREAT O_EXCL O_WRONLY);
use File::Temp qw(tempdir);
use HTTP::Tiny;
use JSON::PP;
use POSIX qw(strftime);
use Time::HiRes ();

use Mail::SpamAssassin::Plugin;
use Mail::SpamAssassin::Logger;
use Mail::SpamAssassin::Timeout;
use Mail::SpamAssassin::Util qw(untaint_var);

our @ISA = qw(Mail::SpamAssassin::Plugin);

# The largest answer that is read. That to a check has a finding for each of at most
# 1,024 signatures.
my $max_answer = 2 << 20;

# The longest address in bytes: the node refuses requests with longer ones.
my $max_address = 998;

sub new {
  my ($class, $main) = @_;
  my $self = $class->SUPER::new($main);
  bless($self, ref($class) || $class);
  $self->set_config($main->{conf});
  $self->register_eval_rule('check_bulkhead', $Mail::SpamAssassin::Conf::TYPE_FULL_EVALS);
  $self->register_eval_rule('check_bulkhead_unanswered', $Mail::SpamAssassin::Conf::TYPE_FULL_EVALS);
  return $self;
}

sub set_config {
  my ($self, $conf) = @_;
  $conf->{parser}->register_commands([
    # URL of the node.
    { setting => 'bulkhead_server', default => 'http://127.0.0.1:8420', type => $Mail::SpamAssassin::Conf::CONF_TYPE_STRING, is_admin => 1 },
    # File with the token of an account, for a node elsewhere.
    { setting => 'bulkhead_token_file', default => '', type => $Mail::SpamAssassin::Conf::CONF_TYPE_STRING, is_admin => 1 },
    # Longest time for an answer, seconds.
    { setting => 'bulkhead_timeout', default => 3, type => $Mail::SpamAssassin::Conf::CONF_TYPE_DURATION, is_admin => 1 },
    # Largest mail that is sent, bytes.
    { setting => 'bulkhead_max_size', default => 4 << 20, type => $Mail::SpamAssassin::Conf::CONF_TYPE_NUMERIC, is_admin => 1 },
    # Whether mail that is not spam is counted as delivered. 0 where the milter counts it.
    { setting => 'bulkhead_count', default => 1, type => $Mail::SpamAssassin::Conf::CONF_TYPE_BOOL, is_admin => 1 },
    # Folder below which votes wait while the node is away; empty: they are lost.
    { setting => 'bulkhead_waiting', default => '/var/spool/bulkhead', type => $Mail::SpamAssassin::Conf::CONF_TYPE_STRING, is_admin => 1 },
    # Whether a vote names the user for whom spamd or sa-learn runs.
    { setting => 'bulkhead_user', default => 0, type => $Mail::SpamAssassin::Conf::CONF_TYPE_BOOL, is_admin => 1 },
  ]);
}

# ask sends a request and returns the decoded answer, nothing if there is none that can
# be understood. It never takes longer than the timeout, nor dies.
sub ask {
  my ($self, $path, $query, $type, $body) = @_;
  my $conf = $self->{main}->{conf};
  $self->{passes} = 1; # a failure that may pass
  my %headers = ('Content-Type' => $type);
  if (my $file = $conf->{bulkhead_token_file}) {
    my $fh;
    if (!open($fh, '<', $file)) {
      info("bulkhead: cannot read $file: $!");
      return;
    }
    my $token = <$fh>;
    close $fh;
    chomp $token if defined $token;
    $headers{Authorization} = "Bearer $token" if defined $token;
  }
  my $url = $conf->{bulkhead_server} . $path;
  $url .= "?$query" if $query ne '';
  my ($reply, $answer);
  my $seconds = $conf->{bulkhead_timeout};
  # The timeout of HTTP::Tiny is that of each read: a node that drips would hold the mail.
  my $timer = Mail::SpamAssassin::Timeout->new({ secs => $seconds, deadline => $self->{main}->{master_deadline} });
  my $err = $timer->run_and_catch(sub {
    my $http = HTTP::Tiny->new(agent => 'bulkhead-spamassassin ', timeout => $seconds, max_size => $max_answer, max_redirect => 0, proxy => undef, http_proxy => undef, https_proxy => undef);
    $reply = $http->request('POST', $url, { headers => \%headers, content => $body });
  });
  if ($timer->timed_out()) {
    info("bulkhead: no answer from $conf->{bulkhead_server} in $seconds seconds");
    return;
  }
  if ($err || !$reply) {
    info("bulkhead: $conf->{bulkhead_server}: " . ($err || 'no answer'));
    return;
  }
  my $decoded = eval { local $SIG{__DIE__}; $answer = JSON::PP->new->utf8->max_depth(16)->decode($reply->{content}); 1 };
  if (!$reply->{success}) {
    my $why = $decoded && ref $answer eq 'HASH' && defined $answer->{detail} ? $answer->{detail} : $reply->{reason};
    $why =~ s/[^\x20-\x7e]/ /g;
    info("bulkhead: $path: $reply->{status} " . substr($why, 0, 200));
    $self->{passes} = $reply->{status} >= 500 || $reply->{status} == 429 || $reply->{status} == 408;
    return;
  }
  if (!$decoded || ref $answer ne 'HASH') {
    info("bulkhead: $path: an answer that is none");
    return;
  }
  return $answer;
}

# escape writes a value as a part of a query.
sub escape {
  my ($text) = @_;
  utf8::encode($text) if utf8::is_utf8($text);
  $text =~ s/([^A-Za-z0-9._~-])/sprintf('%%%02X', ord $1)/ge;
  return $text;
}

# is_address says whether $text is an address that the node accepts.
sub is_address {
  my ($text) = @_;
  return defined $text && length $text <= $max_address && $text =~ /^\S+\@\S+$/;
}

# source returns what has been verified of a message: client, sender, dkim.
sub source {
  my ($self, $pms) = @_;
  my %source;
  my $relays = $pms->{relays_external};
  if ($relays && @$relays && defined $relays->[0]->{ip} && $relays->[0]->{ip} =~ /^[0-9a-fA-F.:]+$/) {
    $source{client} = $relays->[0]->{ip};
  }
  my ($from) = $pms->get('EnvelopeFrom:addr');
  if ($pms->{spf_pass} && is_address($from)) {
    $source{sender} = $from;
  }
  my $domains = $pms->get_tag('DKIMDOMAIN');
  if ($pms->{dkim_valid} && defined $domains) {
    my @domains = grep { /^[A-Za-z0-9._-]+$/ } ref $domains ? @$domains : split /\s+/, $domains;
    $source{dkim} = [ @domains[0 .. ($#domains < 15 ? $#domains : 15)] ] if @domains;
  }
  return \%source;
}

# judge asks the node about a message, once.
sub judge {
  my ($self, $pms, $text) = @_;
  return $pms->{bulkhead} if exists $pms->{bulkhead};
  $pms->{bulkhead} = undef;
  return if $self->{main}->{local_tests_only} || length $$text > $self->{main}->{conf}->{bulkhead_max_size};
  # Mail of the site's own users is neither judged nor counted.
  my $trusted = $pms->{relays_trusted};
  return if $trusted && grep { defined $_->{auth} && $_->{auth} ne '' } @$trusted;
  my $source = $self->source($pms);
  my @query = map { "$_=" . escape($source->{$_}) } grep { defined $source->{$_} } qw(client sender);
  push @query, map { 'dkim=' . escape($_) } @{ $source->{dkim} || [] };
  my $user = $self->{main}->{username};
  push @query, 'mailbox=' . escape($user) if is_address($user);
  my $verdict = $self->ask('/v1/check', join('&', @query), 'message/rfc822', $$text);
  return if !$verdict || !defined $verdict->{class} || ref $verdict->{class} || ref($verdict->{reasons} || []) ne 'ARRAY';
  my $reason = $verdict->{reasons}->[0];
  $reason = '' if !defined $reason || ref $reason;
  $reason =~ s/[^\x20-\x7e]/ /g;
  $pms->{bulkhead} = { %$verdict, source => $source };
  $pms->set_tag('BULKHEAD', $verdict->{class} eq 'unknown' ? 'unknown' : "$verdict->{class} " . substr($reason, 0, 160));
  return $pms->{bulkhead};
}

# check_bulkhead('spam') hits if the node gives the message that class.
sub check_bulkhead {
  my ($self, $pms, $text, $class) = @_;
  my $verdict = $self->judge($pms, $text);
  return $verdict && $verdict->{class} eq $class ? 1 : 0;
}

# check_bulkhead_unanswered hits a suspected message that hardly differs from a reported one,
# if SPF and DKIM say that nobody answers for it.
sub check_bulkhead_unanswered {
  my ($self, $pms, $text) = @_;
  my $verdict = $self->judge($pms, $text);
  return $verdict && nearly_reported($verdict) && nobody_answers($pms, $verdict->{source}) ? 1 : 0;
}

# The suspicion that a whole vote gives, and for each vote how many deliveries nobody may
# have complained of.
my ($least_confidence, $most_sightings) = (45, 10);

# number returns what is a number in an answer, 0 for anything else.
sub number {
  my ($value) = @_;
  return defined $value && !ref $value && $value =~ /^\d+\z/ ? $value : 0;
}

# nearly_reported says that a message is suspected because nearly the same text was
# reported, was hardly delivered without complaint, and comes from no network that sent
# other mail, or such a text, before.
sub nearly_reported {
  my ($verdict) = @_;
  my $votes = number($verdict->{spam_votes}) || 1;
  return 0 if $verdict->{class} ne 'suspected' || ($verdict->{rule} // '') =~ /^(?:known-network|usual-text)$/ || number($verdict->{confidence}) < $least_confidence
    || number($verdict->{sightings}) > $most_sightings * $votes || ref $verdict->{findings} ne 'ARRAY';
  return scalar grep {
    ref eq 'HASH' && defined $_->{signature} && $_->{signature} =~ m{^bulkhead/near:} && defined $_->{judged} && $_->{judged} eq 'spam'
  } @{ $verdict->{findings} };
}

# nobody_answers says that a message has no verified sender, although both could be asked.
sub nobody_answers {
  my ($pms, $source) = @_;
  return defined $source->{client} && !defined $source->{sender} && !$source->{dkim} && $pms->{dkim_checked_signature}
    && grep { $pms->{"spf_$_"} } qw(none neutral softfail fail permerror);
}

# check_end counts the message as delivered, unless it is spam.
sub check_end {
  my ($self, $opts) = @_;
  my $pms = $opts->{permsgstatus};
  my $verdict = $pms->{bulkhead};
  my $conf = $self->{main}->{conf};
  return if !$verdict || !$conf->{bulkhead_count} || $pms->get_score() >= $pms->get_required_score() || ref $verdict->{findings} ne 'ARRAY';
  my @sigs = grep { defined && !ref } map { ref eq 'HASH' ? $_->{signature} : undef } @{ $verdict->{findings} };
  return if !@sigs;
  my %report = (signatures => \@sigs, vote => 'sighting');
  $report{source} = $verdict->{source} if %{ $verdict->{source} };
  my $user = $self->{main}->{username};
  $report{recipients} = [$user] if is_address($user);
  my ($id) = $pms->get('Message-ID');
  if (defined $id && $id =~ /(<[\x21-\x7e]{1,230}>)/) {
    $report{id} = $1; # a mail that comes again after a delay counts once
  }
  $self->ask('/v1/report', '', 'application/json', JSON::PP->new->utf8->encode(\%report));
  return;
}

# vote tells the node what somebody says of a message. It returns whether the node took it, or
# takes it later.
sub vote {
  my ($self, $text, $vote) = @_;
  return if $self->{main}->{local_tests_only};
  my $query = "vote=$vote";
  my $user = $self->{main}->{username};
  undef $user if !$self->{main}->{conf}->{bulkhead_user} || !defined $user || $user eq '';
  $query .= '&user=' . escape($user) if defined $user;
  return 1 if $self->ask('/v1/report', $query, 'message/rfc822', $text);
  return $self->{passes} && $self->keep($text, $vote, $user) ? 1 : 0;
}

# The most votes that a process keeps in a folder, and the largest message of one.
my ($max_votes, $max_kept) = (1000, 32 << 20);

# keep puts a vote into a folder of this user, from which "bulkhead waiting --send" takes it. The
# first line is JSON, the rest is the message. It returns whether the vote is on disk.
sub keep {
  my ($self, $text, $vote, $user) = @_;
  my $conf = $self->{main}->{conf};
  my $shared = $conf->{bulkhead_waiting};
  return 0 if $shared eq '' || !-d $shared || length $text > $max_kept;
  # "spamassassin -r" and "-k" vote and then learn, which is the same vote.
  my $same = join("\0", $vote, defined $user ? $user : '', $text);
  return 1 if defined $self->{kept} && $self->{kept} eq $same;
  $shared = untaint_var($shared); # of the administrator
  my $done = eval {
    local $SIG{__DIE__};
    my @own = grep { my @s = lstat; @s && -d _ && $s[4] == $> && !($s[2] & 077) } glob "$shared/*";
    my $folder = untaint_var($own[0]);
    $folder = tempdir("$>-XXXXXXXXXX", DIR => $shared) if !defined $folder; # of mode 0700
    my @waiting = glob "$folder/*.vote";
    die "too many votes wait in $folder\n" if @waiting >= $max_votes;
    my ($seconds, $micro) = Time::HiRes::gettimeofday();
    my $name = sprintf('%s/%010d%06d000-%d-%06d', $folder, $seconds, $micro, $$, rand 1e6);
    my %head = (id => "spamassassin-$seconds-$micro-$$", vote => $vote, server => $conf->{bulkhead_server}, time => strftime('%Y-%m-%dT%H:%M:%SZ', gmtime $seconds));
    $head{user} = $user if defined $user;
    $head{token_file} = $conf->{bulkhead_token_file} if $conf->{bulkhead_token_file} ne '';
    sysopen(my $fh, "$name.tmp", O_WRONLY | O_CREAT | O_EXCL, 0600) or die "$name: $!\n";
    binmode $fh;
    print {$fh} JSON::PP->new->utf8->canonical->encode(\%head), "\n", $text or die "$name: $!\n";
    close $fh or die "$name: $!\n";
    rename("$name.tmp", "$name.vote") or die "$name: $!\n";
    1;
  };
  $self->{kept} = $same if $done;
  info('bulkhead: ' . ($done ? 'the vote waits for the node' : "the vote is lost: $@"));
  return $done ? 1 : 0;
}

# spamassassin -r
sub plugin_report {
  my ($self, $opts) = @_;
  my $text = $opts->{text};
  return if $self->{main}->{local_tests_only};
  $opts->{report}->{report_available} = 1;
  if ($self->vote(ref $text ? $$text : $text, 'spam')) {
    $opts->{report}->{report_return} = 1;
    info('reporter: spam reported to bulkhead');
  } else {
    info('reporter: could not report spam to bulkhead');
  }
  return 1;
}

# spamassassin -k
sub plugin_revoke {
  my ($self, $opts) = @_;
  my $text = $opts->{text};
  return if $self->{main}->{local_tests_only};
  $opts->{revoke}->{revoke_available} = 1;
  if ($self->vote(ref $text ? $$text : $text, 'ham')) {
    $opts->{revoke}->{revoke_return} = 1;
    info('reporter: spam revoked from bulkhead');
  } else {
    info('reporter: could not revoke spam from bulkhead');
  }
  return 1;
}

# SpamAssassin is about to learn a message by its own score: nobody has voted.
sub autolearn {
  my ($self) = @_;
  $self->{by_itself} = 1;
  return;
}

# sa-learn, and spamc -L. "spamassassin -r" and "-k" learn, too, after they have voted:
# the latest vote counts, so that the same one again changes nothing.
sub learn_message {
  my ($self, $opts) = @_;
  if (delete $self->{by_itself}) {
    return;
  }
  $self->vote($opts->{msg}->get_pristine(), $opts->{isspam} ? 'spam' : 'ham');
  return; # what the learner says is the answer
}

# sa-learn --forget takes nothing back: a vote is about the mail, not about a database.

1;
