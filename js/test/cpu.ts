/** Milliseconds of processor time that this process has used: what else the machine does is not counted. */
export const cpuTime = (): number => {
  const { user, system } = process.cpuUsage();
  return (user + system) / 1000;
};
