/** Makes properties draw the same values in every run. CRAIK_TEST_SEED sets another seed. */
import { configureGlobal } from 'fast-check'

configureGlobal({ seed: Number(process.env.CRAIK_TEST_SEED ?? 20_261_115) })
