/** npm and pip in a process sandbox, with grants. */
import { describe } from 'vitest'
import { ROOT_IS_NEEDED } from '../sandbox-home.ts'
import { installsPackages } from './packages.ts'

describe.skipIf(ROOT_IS_NEEDED !== undefined)(ROOT_IS_NEEDED ?? 'in a process sandbox', () =>
  installsPackages('process'),
)
