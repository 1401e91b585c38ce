/** The process sandbox passes the contract, whoever runs Craik: root, or an ordinary user. */
import { it } from 'vitest'
import { canBe, IDENTITIES, ROOT_IS_NEEDED, SandboxHome } from '../sandbox-home.ts'
import { sandboxContract } from './sandbox.ts'

for (const identity of IDENTITIES) {
  if (canBe(identity)) sandboxContract(`process, run by ${identity}`, () => SandboxHome.open({ identity }))
  else it.skip(`the contract of sandboxes: process, run by ${identity} (${ROOT_IS_NEEDED})`, () => {})
}
