package learning

import "context"

// Further returns n messages of each of 20 further made senders, as [Commercial] does. No rule or constant was chosen
// with them.
func Further(ctx context.Context, n int, seed uint64) ([]Letter, error) {
	return written(ctx, further, n, seed, false)
}

// The senders of [Further]. All names, offers and texts are made up.
var further = []sender{
	{"Wexcombe Pottery", 5, false, "The kiln is open again",
		"Last month we fired the first batch since the flood.|The glazes came out a little darker than planned, and we " +
			"like them that way.|Our spring courses for beginners start after Easter.|Pieces with small flaws are on the " +
			"shelf by the door at half the price.|Reply to this letter if you would like a place, there are eight.|You " +
			"hear from us four times a year.",
		"Stoneware bowls|Two large jugs|Tiles for the hallway|A set of egg cups|Candle holders", "See the new pieces"},
	{"Pennant Rail", 6, false, "Changes to your season ticket",
		"From the ninth, the 7.42 leaves five minutes earlier.|Your season ticket stays valid on all lines of the " +
			"southern network.|A replacement coach runs between the two junctions at the weekend.|Refunds for last " +
			"Tuesday are paid to the card that you bought the ticket with.|Staff at every station can print the new " +
			"timetable.",
		"Season ticket, adult|Bicycle pass|Car park|Replacement coach", "Check the timetable"},
	{"Corvid Analytics", 7, false, "[corvid] build 4471 has failed",
		"Stage integration failed after 12 minutes on runner seven.|Two tests have timed out, and one has left a " +
			"temporary file behind.|The previous build of this branch was green.|The author of the last change and the " +
			"owners of the package were notified.|This notice ends when the branch is green again.",
		"unit: passed|lint: passed|integration: failed|package: skipped", "Open the log"},
	{"Allotment Society Eastgate", 0, false, "Minutes and the water rota",
		"Dear plot holders, the minutes of the March meeting are on the board in the shed.|The standpipe near the gate " +
			"leaks and will be repaired on Friday.|Please shred your brambles before you put them on the heap.|The waiting " +
			"list now has nineteen names.|Seed potatoes may be fetched from the treasurer.",
		"Water rota|Seed order|Key deposits|Bonfire dates", "Read the minutes"},
	{"Zahnärzte am Wall", 5, false, "Terminbestätigung",
		"Wir haben den folgenden Termin für Sie eingetragen.|Falls Sie verhindert sind, rufen Sie uns bitte zwei Tage " +
			"vorher an.|Nüchtern müssen Sie nicht sein.|Parken können Sie im Hof hinter dem Haus.|Die Unterlagen vom " +
			"Überweiser liegen uns bereits vor.",
		"Prophylaxe|Röntgen|Beratung|Füllung", "Termin ändern"},
	{"Holzhandel Brandl", 6, false, "Angebot zu Ihrer Anfrage",
		"Vielen Dank für Ihre Anfrage vom Montag.|Die Lärchenbretter können wir ab der zwölften Woche liefern.|Die " +
			"Preise verstehen sich ab Werk und zuzüglich Umsatzsteuer.|Für den Zuschnitt berechnen wir nach Laufmetern.|" +
			"Unser Fahrer braucht eine befestigte Zufahrt.|Mit freundlichen Grüßen aus dem Sägewerk.",
		"Lärche, besäumt|Fichte, gehobelt|Konstruktionsholz|Terrassendielen", "Angebot annehmen"},
	{"Volkshochschule Seetal", 3, false, "Programm für das Herbstsemester",
		"Das neue Programmheft liegt ab sofort in den Büchereien aus.|Neu sind Kurse in Buchbinden und Ukrainisch.|Wer " +
			"bis Ende August bucht, erhält den Frühbucherpreis.|Die Turnhalle ist wegen Bauarbeiten geschlossen.|" +
			"Ermäßigungen gelten für Auszubildende und Rentner.",
		"Aquarell|Rückengymnastik|Tabellenkalkulation|Chor", "Kurs buchen"},
	{"Pharmacie des Tilleuls", 5, false, "Votre ordonnance est prête",
		"Vos médicaments vous attendent au comptoir.|Pensez à apporter votre carte et l'original de l'ordonnance.|La " +
			"pharmacie de garde ce dimanche est celle de la gare.|Le vaccin contre la grippe est arrivé.|Nous gardons votre " +
			"commande pendant dix jours.",
		"Ordonnance|Vaccination|Location de matériel|Préparation", "Voir la commande"},
	{"Coopérative des Monts", 1, false, "Le panier de jeudi",
		"Voici ce que les maraîchers ont cueilli pour vous.|Les oeufs viennent cette semaine de la ferme d'en haut.|Il a " +
			"gelé, donc pas d'abricots avant quinze jours.|Rapportez les cagettes et les bocaux vides.|La distribution se " +
			"fait sous la halle à dix-huit heures.",
		"Poireaux|Pommes de terre|Blettes|Fromage frais|Miel", "Modifier le panier"},
	{"Correos del Valle", 2, false, "Aviso de recogida",
		"Su envío está en la oficina de la calle Mayor.|Puede retirarlo con su documento hasta el viernes.|Si lo prefiere, " +
			"otra persona puede recogerlo con una autorización.|El horario de verano empieza el lunes.|No hay nada que pagar.",
		"Carta certificada|Paquete pequeño|Devolución|Apartado postal", "Ver el aviso"},
	{"Gimnasio Puente", 6, false, "Nuevos horarios de clases",
		"A partir de octubre hay yoga también por la mañana.|La piscina cierra dos semanas por la revisión anual.|Los " +
			"socios pueden invitar a un amigo el último sábado.|Recuerde traer candado para la taquilla.|Las cuotas no cambian.",
		"Yoga|Natación|Pesas|Baile", "Reservar clase"},
	{"Condominio Aurora", 0, false, "Convocazione dell'assemblea",
		"L'assemblea è convocata per mercoledì alle ore venti e trenta.|All'ordine del " +
			"giorno ci sono il tetto e l'ascensore." +
			"|Il bilancio è allegato a questa lettera.|Chi non può venire può delegare un vicino.|L'amministratore resta a " +
			"disposizione per chiarimenti.",
		"Rifacimento del tetto|Ascensore|Bilancio consuntivo|Varie", "Scarica gli allegati"},
	{"Bibliotheek Lindehof", 1, false, "Uw reservering ligt klaar",
		"Het boek dat u hebt gereserveerd ligt op de plank bij de ingang.|We bewaren het tot volgende week zaterdag.|Op " +
			"Koningsdag zijn wij gesloten.|Verlengen kan met uw pas en pincode.|De voorleesochtend is verplaatst naar de " +
			"kinderhoek.",
		"Roman|Reisgids|Stripboek|Luisterboek", "Verlengen"},
	{"Puutarha Koivisto", 5, false, "Kevään taimet ovat saapuneet",
		"Omenapuiden taimet ovat nyt myynnissä.|Mullan saat meiltä myös irtotavarana.|Kasvihuone on avoinna joka päivä " +
			"kuuteen asti.|Neuvomme mielellämme leikkaamisessa.|Saat tämän kirjeen, koska olet asiakkaamme.",
		"Omenapuu|Marjapensas|Perennat|Siemenperunat", "Katso valikoima"},
	{"Poradnia Lipowa", 3, false, "Przypomnienie o wizycie",
		"Przypominamy o wizycie w przyszłym tygodniu.|Prosimy przyjść dziesięć minut wcześniej i zabrać wyniki badań.|" +
			"Wejście jest teraz od strony parku.|Wizytę można odwołać telefonicznie.|Rejestracja pracuje od siódmej.",
		"Konsultacja|Badanie kontrolne|Szczepienie|Rehabilitacja", "Zmień termin"},
	{"Câmara de Ribeira", 0, false, "Boletim municipal",
		"A recolha de resíduos muda para terça-feira na zona alta.|O mercado reabre depois das obras.|As candidaturas às " +
			"hortas comunitárias terminam no fim do mês.|A biblioteca tem um novo horário ao sábado.|A água será cortada na " +
			"rua da fonte durante a manhã.",
		"Mercado|Hortas|Biblioteca|Trânsito", "Ler o boletim"},
	{"Kıyı Kitabevi", 2, false, "Bu ayın kitapları",
		"Bu ay üç yeni roman raflarımızda.|Siparişler iki iş günü içinde yola çıkar.|Üyelerimize yüzde on indirim " +
			"yapıyoruz.|Bu mektubu üyemiz olduğunuz için alıyorsunuz.|Söyleşimiz perşembe akşamı üst katta.",
		"Deniz feneri|Taş ev|Kış mektupları|Harita", "Kitaplara bak"},
	{"Кафе Липа", 3, false, "Меню на неделю",
		"На этой неделе мы готовим суп из тыквы.|Терраса открыта, пока тепло.|Столик лучше заказать заранее.|По средам " +
			"играет наш сосед на аккордеоне.|Хлеб мы печём сами.",
		"Суп|Пирог с капустой|Компот|Блины", "Заказать столик"},
	{"명륜서점", 5, false, "이번 주 새 책 소식",
		"이번 주에 들어온 책 세 권을 소개합니다.|오만 원 이상은 배송비가 없습니다.|회원님께 보내 드리는 편지입니다.|토요일에는 작은 낭독회가 있습니다.|" +
			"수신을 원하지 않으시면 아래에서 바꾸실 수 있습니다.",
		"겨울 항구|지도의 정원|편지|유리 과수원", "책 보기"},
	{"河岸书店", 2, false, "本周新书",
		"本周我们为您挑选了三本小说。|满一百元免运费。|您收到此信是因为您是我们的会员。|周六下午在二楼有读书会。|如需退订请点击下面的链接。",
		"冬天的港口|地图花园|来信|玻璃果园", "查看书目"},
}
