import { alike } from "./distribution";

alike("codebook");
alike("lattice");
