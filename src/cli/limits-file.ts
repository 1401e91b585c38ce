/** What all sandboxes of a home may have together, and how many places may wait for one: as `config/limits.yaml` says. */
import { readConfigFile } from '../providers/config-file.ts'
import { admissionLimits, LIMITS_FILE, thisMachine, warmPlaces } from '../sandboxes/admission-settings.ts'
import type { ManagerOptions } from '../sandboxes/manager/options.ts'
import type { Home } from '../store/home.ts'

export async function readLimits({
  config,
  root,
}: Pick<Home, 'config' | 'root'>): Promise<Required<Pick<ManagerOptions, 'admission' | 'warmPlaces'>>> {
  const said = await readConfigFile(config, LIMITS_FILE)
  return { admission: admissionLimits(said, thisMachine(root)), warmPlaces: warmPlaces(said) }
}
