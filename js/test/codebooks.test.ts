import { alike } from "./distribution.js";

alike("codebook");
alike("lattice");
