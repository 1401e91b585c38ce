/** Parses the volumes of a new sandbox, and returns the grants for them. */
import { Option } from 'commander'
import { CraikError } from '../../errors.ts'
import type { CreateBody } from '../../operator/api/requests.ts'
import type { CommandGrant } from '../command-grant.ts'
import { quoteText } from './amounts.ts'

export function volumeOption(): Option {
  return new Option(
    '--volume <name:path>',
    'store this path of the sandbox’s home in the volume NAME, which outlives the sandbox (repeatable)',
  ).argParser((one: string, before: readonly string[] = []) => [...before, one])
}

/** Parses `NAME:PATH`. The supervisor validates both when it creates the sandbox. */
export function parseVolume(text: string): NonNullable<CreateBody['volumes']>[number] {
  const [, name, at] = /^([^:]+):([^:]+)$/s.exec(text) ?? []
  if (name !== undefined && at !== undefined) return { name, at: at.replace(/^~\//, '') }
  throw new CraikError('usage', `--volume ${quoteText(text)} is not NAME:PATH`, {
    hint: 'write a name and a path in the home:  --volume tools:.local',
  })
}

/** Grants the use of each volume that the user named. */
export function volumeGrants({ volumes = [] }: Pick<CreateBody, 'volumes'>): CommandGrant[] {
  return volumes.map(({ name }) => ({
    capability: 'sandbox.mount',
    operation: 'volume',
    target: `volume/${name}`,
    command: 'craik sandbox create',
  }))
}
