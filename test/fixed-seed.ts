/** Properties draw the same values in every run; another seed is tried with CRAIK_TEST_SEED. */
import { configureGlobal } from 'fast-check'

configureGlobal({ seed: Number(process.env.CRAIK_TEST_SEED ?? 20_261_115) })
