/** Lists for sandboxes under which ids this build of Craik installs the agent CLIs. */
import { type HarnessStore, TOOL_NAMES } from '../../sandboxes/harness-package.ts'
import { checkHarnesses, readPackage } from './harness-catalogue.ts'

export const harnessStore: HarnessStore = {
  ids: (names) => checkHarnesses([...TOOL_NAMES, ...names]).map((name) => readPackage(name).id),
}
