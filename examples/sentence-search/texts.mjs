// What is searched, and what is asked when nothing is.

export const COLLECTION = [
  // Sky
  "Jupiter is the largest planet of the solar system.",
  "The Moon takes about 27 days to go once around the Earth.",
  "Light from the Sun reaches us after a little more than eight minutes.",
  "A solar eclipse happens when the Moon passes between the Earth and the Sun.",
  "A black hole is so dense that not even light can leave it.",
  "The rings of Saturn are made of ice and rock.",
  // Living things
  "Photosynthesis turns sunlight, water and carbon dioxide into sugar and oxygen.",
  "Bees tell each other where flowers are by dancing.",
  "Bats find their way in the dark by listening to echoes.",
  "Whales are mammals and must come to the surface to breathe.",
  "An octopus has three hearts and blue blood.",
  "Migrating birds find their way with the help of the Earth's magnetic field.",
  "Trees in cold countries drop their leaves before winter to save water.",
  // Body and health
  "Washing your hands with soap is the simplest way to stop germs from spreading.",
  "Adults need seven to nine hours of sleep a night.",
  "The heart pumps blood through the whole body about once a minute.",
  "Vaccines train the immune system to recognise a disease before it strikes.",
  "Regular exercise lowers blood pressure and lifts the mood.",
  "Drink plenty of water when you have a fever.",
  // Earth and weather
  "Water boils at a lower temperature on high mountains.",
  "Thunder is the sound of air heated suddenly by lightning.",
  "Earthquakes occur where the plates of the Earth's crust slide past each other.",
  "The Sahara is the largest hot desert in the world.",
  "Tides rise and fall because of the pull of the Moon.",
  "The Amazon carries more water than any other river.",
  "Snow keeps the ground warm because it holds a lot of air.",
  // History
  "The printing press made books cheap enough for ordinary people.",
  "The Berlin Wall fell in November 1989.",
  "The Great Fire of London destroyed thousands of houses in 1666.",
  "Ancient Egyptians wrote on sheets made from papyrus reeds.",
  "The first people walked on the Moon in July 1969.",
  "The Silk Road carried goods and ideas between China and Europe.",
  // Computing
  "A compiler translates a program into instructions that a processor can execute.",
  "Attention lets every word of a sentence look at every other word.",
  "A backup is only worth something once you have tried to restore it.",
  "Encryption keeps a message secret from everyone who lacks the key.",
  "WebAssembly runs compiled code in the browser at nearly native speed.",
  "A cache keeps copies of recent data close to where they are needed.",
  "Sorting a list makes it much faster to look something up.",
  // Cooking
  "Let the dough rest for an hour so that it can rise.",
  "Add a pinch of salt to the water before you cook the pasta.",
  "Slow roasting keeps meat tender and juicy.",
  "Yeast feeds on sugar and gives off carbon dioxide, which makes bread light.",
  "Keep opened milk in the fridge and use it within a few days.",
  // Money and work
  "The central bank raised interest rates to slow down inflation.",
  "Spread your savings over many companies to lower the risk.",
  "A budget shows what comes in and what goes out each month.",
  "Unemployment fell as factories hired more workers.",
  "An invoice should state the date by which it has to be paid.",
  // Music and sport
  "A violin has four strings, tuned in fifths.",
  "Beethoven went on composing after he had lost his hearing.",
  "A marathon is a little longer than forty-two kilometres.",
  "A football match lasts ninety minutes, plus the time lost to injuries.",
  "Chess players may castle only if neither king nor rook has moved.",
  // Help desk
  "To reset your password, follow the link in the e-mail we send you.",
  "You can return any product within thirty days and get your money back.",
  "Our office is open from nine to five, Monday to Friday.",
  "Parcels within the country arrive after two to three working days.",
  "Turn the router off, wait ten seconds and turn it on again.",
  "You can cancel your subscription at any time in the settings of your account.",
];

export const QUESTIONS = [
  "I forgot my login details, what should I do?",
  "When was the wall in Germany torn down?",
  "How do plants use the light of the sun?",
];
