package fidelity

// A language holds text for mails, and the charsets in which it is sent besides UTF-8.
type language struct {
	name      string
	charsets  []string
	sentences []string
}

// languages hold sentences written for this purpose: letters of shops, clubs and offices.
var languages = []language{
	{"en", []string{"us-ascii", "iso-8859-1", "windows-1252"}, []string{
		"The ferry to the island leaves at nine on every day of the week but Sunday, and returns at six.",
		"Please have a look at what we've written about the roof, and write to us before Friday if you don't agree.",
		"Your order #4711 (two lamps, 3.50 EUR each) has been packed; it will be with you within 48 hours.",
		"We can't believe it's been a year since you've first visited our little shop in the harbour!",
		"Call +44 20 7946 0018 or write to help@shop.example, and we will answer at once.",
		"Most of the people who live here have never seen the house from the other side of the river.",
		"If you are not the person this letter is meant for, please delete it and let the sender know.",
		"It costs $19.99, i.e. 20% less than last year's model, and it weighs only 1,250 g.",
	}},
	{"de", []string{"iso-8859-1", "iso-8859-15", "windows-1252"}, []string{
		"Die Fähre zur Insel fährt jeden Tag außer sonntags um neun Uhr ab und kehrt um sechs zurück.",
		"Bitte überprüfen Sie Ihre Angaben und teilen Sie uns bis Freitag mit, ob wir die Rechnung schließen können.",
		"Wir freuen uns, Ihnen mitteilen zu dürfen, dass Ihr Paket heute das Lager verlassen hat.",
		"Das Frühstück im Gasthaus ist größer, als man es für 7,50 Euro erwarten würde.",
		"Wer zuerst kommt, bekommt den schönsten Platz auf der Bühne; für alle anderen gibt es Bänke.",
		"Sollten Sie Fragen haben, so wenden Sie sich bitte an unseren Kundendienst unter 030 901820.",
	}},
	{"fr", []string{"iso-8859-1", "iso-8859-15", "windows-1252"}, []string{
		"Le bateau pour l'île part à neuf heures tous les jours sauf le dimanche et revient à six heures.",
		"Veuillez vérifier vos coordonnées et nous dire avant vendredi si vous n'êtes pas d'accord.",
		"Nous avons le plaisir de vous annoncer que votre commande a été expédiée aujourd'hui.",
		"Le prix du billet est de 12,50 € ; les enfants de moins de six ans ne paient rien.",
		"Qu'est-ce que c'est que cette lettre, et pourquoi est-elle arrivée chez nous ?",
		"Pour ne plus recevoir nos offres, il suffit de cliquer sur le lien au bas de la page.",
	}},
	{"es", []string{"iso-8859-1", "windows-1252"}, []string{
		"El barco para la isla sale a las nueve todos los días menos el domingo y vuelve a las seis.",
		"Por favor, compruebe sus datos y díganos antes del viernes si no está de acuerdo.",
		"Nos complace informarle de que su pedido ha salido hoy de nuestro almacén.",
		"¿Quién no ha soñado alguna vez con una casa pequeña al lado del mar?",
		"El precio es de 15 euros por persona, y los niños menores de seis años entran gratis.",
		"Si no desea recibir más correos como éste, responda a este mensaje con la palabra baja.",
	}},
	{"it", []string{"iso-8859-1", "windows-1252"}, []string{
		"Il traghetto per l'isola parte alle nove ogni giorno tranne la domenica e torna alle sei.",
		"La preghiamo di controllare i suoi dati e di dirci entro venerdì se non è d'accordo.",
		"Siamo lieti di comunicarle che il suo ordine è stato spedito oggi dal nostro magazzino.",
		"Perché non viene a trovarci? La città è bella anche d'inverno, e il caffè è sempre caldo.",
		"Gli amici che hanno visto la casa dicono che non ce n'è una più bella in tutta la valle.",
	}},
	{"pt", []string{"iso-8859-1", "windows-1252"}, []string{
		"O barco para a ilha sai às nove todos os dias, exceto ao domingo, e volta às seis.",
		"Por favor, verifique os seus dados e diga-nos até sexta-feira se não concorda.",
		"Temos o prazer de informar que a sua encomenda saiu hoje do nosso armazém.",
		"Você não vai acreditar no que aconteceu com a nossa pequena loja no porto.",
		"As crianças com menos de seis anos não pagam; para os outros o preço é de 10 euros.",
	}},
	{"nl", []string{"iso-8859-1", "windows-1252"}, []string{
		"De boot naar het eiland vertrekt elke dag behalve zondag om negen uur en komt om zes uur terug.",
		"Controleer uw gegevens en laat ons voor vrijdag weten of u het er niet mee eens bent.",
		"Wij zijn blij u te kunnen vertellen dat uw bestelling vandaag het magazijn heeft verlaten.",
		"Het is niet te geloven hoeveel mensen hier op één dag voorbij de kleine winkel lopen.",
	}},
	{"sv", []string{"iso-8859-1"}, []string{
		"Färjan till ön går klockan nio varje dag utom söndag och kommer tillbaka klockan sex.",
		"Kontrollera dina uppgifter och säg till före fredag om du inte håller med oss.",
		"Vi är glada att kunna berätta att din beställning har lämnat vårt lager i dag.",
		"Det är inte många som har sett huset från den andra sidan av ån.",
	}},
	{"da", []string{"iso-8859-1"}, []string{
		"Færgen til øen sejler klokken ni hver dag undtagen søndag og kommer tilbage klokken seks.",
		"Se venligst på dine oplysninger og sig til inden fredag, hvis du ikke er enig med os.",
		"Vi er glade for at kunne fortælle, at din ordre har forladt vores lager i dag.",
	}},
	{"no", []string{"iso-8859-1"}, []string{
		"Fergen til øya går klokka ni hver dag unntatt søndag og kommer tilbake klokka seks.",
		"Vennligst se over opplysningene dine og si fra før fredag hvis du ikke er enig med oss.",
		"Vi er glade for å kunne fortelle at bestillingen din har forlatt lageret vårt i dag.",
	}},
	{"fi", []string{"iso-8859-1"}, []string{
		"Lautta saarelle lähtee joka päivä paitsi sunnuntaina kello yhdeksän ja palaa kello kuusi.",
		"Tarkista tietosi ja kerro meille ennen perjantaita, jos et ole samaa mieltä.",
		"Meillä on ilo kertoa, että tilauksesi on tänään lähtenyt varastostamme.",
	}},
	{"ru", []string{"koi8-r", "windows-1251", "iso-8859-5"}, []string{
		"Паром на остров отходит в девять часов каждый день, кроме воскресенья, и возвращается в шесть.",
		"Пожалуйста, проверьте ваши данные и сообщите нам до пятницы, если вы не согласны.",
		"Мы рады сообщить вам, что ваш заказ сегодня покинул наш склад.",
		"Это стоит 500 рублей, а дети до шести лет проходят бесплатно.",
		"Люди, которые живут здесь, никогда не видели дом с другого берега реки.",
	}},
	{"uk", []string{"koi8-u", "windows-1251"}, []string{
		"Пором на острів відходить о дев'ятій щодня, крім неділі, і повертається о шостій.",
		"Будь ласка, перевірте ваші дані та повідомте нам до п'ятниці, якщо ви не згодні.",
		"Ми раді повідомити, що ваше замовлення сьогодні залишило наш склад.",
	}},
	{"pl", []string{"iso-8859-2", "windows-1250"}, []string{
		"Prom na wyspę odpływa o dziewiątej każdego dnia oprócz niedzieli i wraca o szóstej.",
		"Prosimy sprawdzić swoje dane i powiedzieć nam przed piątkiem, czy się Państwo zgadzają.",
		"Miło nam poinformować, że Państwa zamówienie opuściło dziś nasz magazyn.",
	}},
	{"cs", []string{"iso-8859-2", "windows-1250"}, []string{
		"Přívoz na ostrov odjíždí v devět hodin každý den kromě neděle a vrací se v šest.",
		"Zkontrolujte prosím své údaje a řekněte nám do pátku, jestli s námi nesouhlasíte.",
	}},
	{"hu", []string{"iso-8859-2"}, []string{
		"A komp minden nap kilenckor indul a szigetre, vasárnap kivételével, és hatkor tér vissza.",
		"Kérjük, ellenőrizze adatait, és péntekig szóljon nekünk, ha nem ért egyet velünk.",
	}},
	{"tr", []string{"iso-8859-9"}, []string{
		"Adaya giden vapur pazar dışında her gün saat dokuzda kalkar ve altıda geri döner.",
		"Lütfen bilgilerinizi kontrol edin ve kabul etmiyorsanız cumaya kadar bize bildirin.",
	}},
	{"el", []string{"iso-8859-7"}, []string{
		"Το πλοίο για το νησί φεύγει στις εννέα κάθε μέρα εκτός Κυριακής και γυρίζει στις έξι.",
		"Παρακαλούμε ελέγξτε τα στοιχεία σας και πείτε μας ως την Παρασκευή αν δεν συμφωνείτε.",
	}},
	{"he", []string{"windows-1255"}, []string{
		"המעבורת לאי יוצאת בתשע בכל יום מלבד שבת וחוזרת בשש.",
		"אנא בדקו את הפרטים שלכם והודיעו לנו עד יום שישי אם אינכם מסכימים.",
	}},
	{"ar", []string{"windows-1256"}, []string{
		"تغادر العبارة إلى الجزيرة في التاسعة كل يوم ما عدا الأحد وتعود في السادسة.",
		"يرجى مراجعة بياناتكم وإخبارنا قبل يوم الجمعة إذا لم توافقوا.",
	}},
	{"zh", []string{"gb2312", "gbk", "gb18030", "big5"}, []string{
		"每天九点有船去岛上，六点回来，星期日除外。",
		"请检查您的资料，如果不同意，请在星期五之前告诉我们。",
		"我们很高兴地通知您，您的订单今天已经发出。",
	}},
	{"ja", []string{"iso-2022-jp", "shift_jis", "euc-jp"}, []string{
		"島への船は日曜日を除いて毎日九時に出て、六時に戻ります。",
		"お客様の情報をご確認のうえ、金曜日までにお知らせください。",
		"ご注文の品は本日倉庫を出ました。ありがとうございます。",
	}},
	{"ko", []string{"euc-kr"}, []string{
		"섬으로 가는 배는 일요일을 빼고 매일 아홉 시에 떠나 여섯 시에 돌아옵니다.",
		"정보를 확인하시고 동의하지 않으시면 금요일까지 알려 주십시오.",
	}},
	{"hi", nil, []string{
		"द्वीप के लिए नाव रविवार को छोड़कर हर दिन नौ बजे जाती है और छह बजे लौटती है।",
		"कृपया अपनी जानकारी जाँच लें और शुक्रवार तक हमें बताएँ।",
	}},
	{"th", []string{"windows-874"}, []string{
		"เรือไปเกาะออกเวลาเก้าโมงทุกวันยกเว้นวันอาทิตย์และกลับมาเวลาหกโมงเย็น",
	}},
	{"vi", []string{"windows-1258"}, []string{
		"Phà ra đảo rời bến lúc chín giờ mỗi ngày trừ chủ nhật và trở về lúc sáu giờ.",
	}},
}

// scraps are fragments that are inserted into texts.
var scraps = []string{
	"http://www.shop.example/", "https://a.b.c.example.com/path/x.php?id=1234&name=ann#top", "www.example.org",
	"HTTP://WWW.Example.NET/Offer", "ftp://files.example.com/list.txt",
	"mailto:bob@example.com", "info@post.example.co.uk", "example.com", "http://user:pass@192.0.2.7:8080/login",
	"http://xn--bcher-kva.example/", "http://bücher.example/",
	"<https://short.example/x>", "(see https://example.com/a_(b))", "http://example.com.", "=====", "-----", "*****",
	"&amp;", "&nbsp;", "a&b", "1.000,50", "v1.2.3", "10:30", "2026-03-02",
	"AB-1234/X", "x@y", "C++", "R&D", "e-mail", "don't", "rock'n'roll", "O'Neill", "state-of-the-art", "snake_case",
	"CamelCase", "€50", "$1,000", "£3", "100%", "½", "№5", "™", "©", "😀", "👍🏽", "❤️",
	"ﬁne", "ＡＢＣ", "naïve", "nai\u0308ve", "ß", "İstanbul", "ǅ", "a\u200bb", "\ufeffc", "x\u00ady", "\u00a0", "\u2003",
	"\u3000", "\u2028", "–", "—", "…", "“quoted”", "‘quoted’", "«quoted»",
	"Dear Ann,", "Hello Bob", "From the hills", ">From the hills", "> quoted line", ".", "..", "~", "^", "\\", "|", "{x}",
	"[1]", "<b>", "</b>", "<>", "<3", "#hash", "@name",
	"supercalifragilisticexpialidocious",
	"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", "0123456789",
	"a1b2c3d4e5f6", "q", "Z",
}
